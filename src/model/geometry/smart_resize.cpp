#include "model/geometry/smart_resize.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

Error refuse(const char* field, std::int64_t width, std::int64_t height, std::string why, std::string hint = {}) {
  return Error{ErrorCode::usage, fmt::format("{}x{} pixels: {}", width, height, why), field, std::move(hint)};
}

Result<void> check_source(const char* field, std::int64_t width, std::int64_t height) {
  const auto [low, high] = std::minmax(width, height);
  if (low < 1 || high > kMaxVisionSide) return refuse(field, width, height, fmt::format("each side must be in 1..{}", kMaxVisionSide));
  const double ratio = static_cast<double>(high) / static_cast<double>(low);
  if (ratio > kMaxVisionRatio)
    return refuse(field, width, height,
                  fmt::format("one side is {:g} times the other, at most {:g} times is possible", ratio, kMaxVisionRatio), "crop it");
  return {};
}

// `sampled` frames are counted as `counted` frames for the decision, but as they are for the factor.
Size resize(std::int64_t sampled, std::int64_t counted, std::int64_t width, std::int64_t height, const ResizeLimits& limits) {
  const double step = limits.factor, w = static_cast<double>(width), h = static_cast<double>(height);
  const auto steps = [&](double count) { return static_cast<std::int64_t>(count) * limits.factor; };
  const std::int64_t nearest_w = steps(std::nearbyint(w / step)), nearest_h = steps(std::nearbyint(h / step));
  const auto size = [](std::int64_t out_w, std::int64_t out_h) { return Size{static_cast<int>(out_w), static_cast<int>(out_h)}; };
  const auto pixels = static_cast<double>(sampled * height * width);
  if (counted * nearest_h * nearest_w > limits.max_pixels) {
    const double shrink = std::sqrt(pixels / static_cast<double>(limits.max_pixels));
    const auto side = [&](double source) { return std::max<std::int64_t>(limits.factor, steps(std::floor(source / shrink / step))); };
    return size(side(w), side(h));
  }
  if (counted * nearest_h * nearest_w < limits.min_pixels) {
    const double grow = std::sqrt(static_cast<double>(limits.min_pixels) / pixels);
    const auto side = [&](double source) { return steps(std::ceil(source * grow / step)); };
    return size(side(w), side(h));
  }
  return size(nearest_w, nearest_h);
}

}  // namespace

Result<Size> smart_resize_image(std::int64_t width, std::int64_t height, const ResizeLimits& limits) {
  TRITIUM_TRY(check_source("image", width, height));
  return resize(1, 1, width, height, limits);
}

Result<Size> smart_resize_video(std::int64_t frames, std::int64_t width, std::int64_t height, const ResizeLimits& limits) {
  if (frames < 1 || frames > kMaxVisionFrames)
    return Error{ErrorCode::failure, fmt::format("{} sampled frames are outside 1..{}", frames, kMaxVisionFrames), "video", ""};
  TRITIUM_TRY(check_source("video", width, height));
  if (std::min(width, height) < limits.factor)
    return refuse("video", width, height, fmt::format("each side of a video needs at least {} pixels", limits.factor));
  const std::int64_t counted = (frames + limits.temporal - 1) / limits.temporal * limits.temporal;
  return resize(frames, counted, width, height, limits);
}

}  // namespace tritium
