#include "model/geometry/canvas.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr int kMaxSourceSide = 65536;  // of a picture that someone gives us

int to_step(double side) { return static_cast<int>(std::nearbyint(side / kSizeStep)) * kSizeStep; }

Size scaled_to_steps(Size source, double factor) {
  return {std::max(kSizeStep, to_step(source.width * factor)), std::max(kSizeStep, to_step(source.height * factor))};
}

int step_up(std::int64_t side) { return static_cast<int>((side + kSizeStep - 1) / kSizeStep) * kSizeStep; }

Result<void> check_side(const char* field, std::int64_t side, std::int64_t lowest) {
  if (side >= lowest && side <= kMaxSide) return {};
  return Error{ErrorCode::usage, fmt::format("{} pixels is outside {}..{}", side, lowest, kMaxSide), field,
               fmt::format("the nearest possible value is {}", side < lowest ? kSizeStep : kMaxSide)};
}

Result<void> check_multiple(const char* field, std::int64_t side) {
  TRITIUM_TRY(check_side(field, side, kSizeStep));
  if (side % kSizeStep == 0) return {};
  const std::int64_t below = side / kSizeStep * kSizeStep;
  return Error{ErrorCode::usage, fmt::format("{} pixels is not a multiple of {}", side, kSizeStep), field,
               fmt::format("use {} or {}", below, below + kSizeStep)};
}

Result<Size> checked_source(const char* field, std::int64_t width, std::int64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxSourceSide && height <= kMaxSourceSide)
    return Size{static_cast<int>(width), static_cast<int>(height)};
  return Error{ErrorCode::usage, fmt::format("{}x{} pixels: each side must be in 1..{}", width, height, kMaxSourceSide), field, ""};
}

bool within_ratio(double width, double height) { return std::max(width, height) <= kMaxAspectRatio * std::min(width, height); }

}  // namespace

Result<Size> snap_size_up(std::int64_t width, std::int64_t height) {
  TRITIUM_TRY(check_side("width", width, 1));
  TRITIUM_TRY(check_side("height", height, 1));
  return Size{step_up(width), step_up(height)};
}

Result<Size> exact_size(std::int64_t width, std::int64_t height) {
  TRITIUM_TRY(check_multiple("width", width));
  TRITIUM_TRY(check_multiple("height", height));
  return Size{static_cast<int>(width), static_cast<int>(height)};
}

Result<Size> canvas_for_ratio(double width, double height) {
  if (!std::isfinite(width) || !std::isfinite(height) || width <= 0 || height <= 0) {
    return Error{ErrorCode::usage, fmt::format("{}:{} is not a ratio: two positive numbers expected", width, height), "aspect_ratio",
                 "for example 16:9"};
  }
  if (!within_ratio(width, height)) {
    return Error{ErrorCode::usage, fmt::format("{}:{} is outside 1:4..4:1", width, height), "aspect_ratio",
                 fmt::format("the nearest possible ratio is {}", width > height ? "4:1" : "1:4")};
  }
  return canvas_within(width, height, kCanvasShortEdge, kCanvasMaxArea);
}

Size canvas_within(double width, double height, int short_edge, std::int64_t max_area) {
  const double ratio = width / height;
  double w = ratio >= 1 ? short_edge * ratio : short_edge;
  double h = ratio >= 1 ? short_edge : short_edge / ratio;
  if (w * h > static_cast<double>(max_area)) {
    const double shrink = std::sqrt(static_cast<double>(max_area) / (w * h));
    w *= shrink;
    h *= shrink;
  }
  return {to_step(w), to_step(h)};
}

Size scale_to_short_edge(Size source, int short_edge) {
  return scaled_to_steps(source, static_cast<double>(short_edge) / std::min(source.width, source.height));
}

Size scale_to_short_edge_within(Size source, int short_edge, std::int64_t max_area) {
  const double by_edge = static_cast<double>(short_edge) / std::min(source.width, source.height);
  return scaled_to_steps(source, std::min(by_edge, std::sqrt(static_cast<double>(max_area) / static_cast<double>(source.area()))));
}

Size shrink_to_area(Size source, std::int64_t max_area) {
  return scaled_to_steps(source, std::min(1.0, std::sqrt(static_cast<double>(max_area) / static_cast<double>(source.area()))));
}

Result<Size> reference_image_size(std::int64_t width, std::int64_t height, ReferenceFit fit, Size canvas) {
  TRITIUM_TRY_ASSIGN(const Size source, checked_source("reference_image", width, height));
  if (!within_ratio(source.width, source.height)) {
    return Error{ErrorCode::usage, fmt::format("{}x{} pixels: the aspect ratio is outside 1:4..4:1", width, height), "reference_image",
                 "crop the image"};
  }
  return fit == ReferenceFit::match ? shrink_to_area(source, canvas.area()) : scale_to_short_edge(source, kReferenceShortEdge);
}

Result<Size> reference_video_size(std::int64_t width, std::int64_t height) {
  TRITIUM_TRY_ASSIGN(const Size source, checked_source("reference_video", width, height));
  return scale_to_short_edge_within(source, kCanvasShortEdge, kCanvasMaxArea);
}

CoverFit cover_fit(Size source, Size canvas) {
  const double factor = std::max(static_cast<double>(canvas.width) / source.width, static_cast<double>(canvas.height) / source.height);
  const auto cover = [factor](int side, int least) { return std::max(least, static_cast<int>(std::nearbyint(side * factor))); };
  CoverFit fit;
  fit.scaled = {cover(source.width, canvas.width), cover(source.height, canvas.height)};
  fit.left = (fit.scaled.width - canvas.width) / 2;
  fit.top = (fit.scaled.height - canvas.height) / 2;
  return fit;
}

}  // namespace tritium
