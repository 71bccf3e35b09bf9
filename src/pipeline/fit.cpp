#include "pipeline/fit.h"

#include "base/try.h"
#include "media/resample.h"

#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

// The part of `source` that starts at (left, top) and has the canvas's size; outside the source it is black.
Picture cut_out(const Picture& source, int left, int top, Size canvas) {
  Picture out{canvas.width, canvas.height,
              std::vector<std::uint8_t>(static_cast<std::size_t>(canvas.width) * static_cast<std::size_t>(canvas.height) * 3, 0)};
  const int first_x = std::max(0, -left), last_x = std::min(canvas.width, source.width - left);
  for (int y = std::max(0, -top); y < std::min(canvas.height, source.height - top) && first_x < last_x; ++y) {
    const auto row = [](const Picture& p, int x, int line) {
      return static_cast<std::ptrdiff_t>((static_cast<std::int64_t>(line) * p.width + x) * 3);
    };
    std::copy_n(source.rgb.begin() + row(source, left + first_x, top + y), static_cast<std::ptrdiff_t>(last_x - first_x) * 3,
                out.rgb.begin() + row(out, first_x, y));
  }
  return out;
}

// Largest size of the source's shape within the canvas, at least one pixel each way.
Size contained(Size source, Size canvas) {
  const double scale = std::min(static_cast<double>(canvas.width) / source.width, static_cast<double>(canvas.height) / source.height);
  const auto side = [scale](int length, int limit) { return std::clamp(static_cast<int>(std::nearbyint(length * scale)), 1, limit); };
  return {side(source.width, canvas.width), side(source.height, canvas.height)};
}

}  // namespace

Result<Picture> fit_picture(const PictureView& picture, Size display, Size canvas, Fit fit) {
  if (fit == Fit::stretch) return resample(picture, canvas.width, canvas.height, ResampleFilter::lanczos);
  if (fit == Fit::cover) {
    const CoverFit cover = cover_fit(display, canvas);
    TRITIUM_TRY_ASSIGN(const Picture scaled, resample(picture, cover.scaled.width, cover.scaled.height, ResampleFilter::lanczos));
    return cut_out(scaled, cover.left, cover.top, canvas);
  }
  const Size inner = contained(display, canvas);
  TRITIUM_TRY_ASSIGN(const Picture scaled, resample(picture, inner.width, inner.height, ResampleFilter::lanczos));
  return cut_out(scaled, -((canvas.width - inner.width) / 2), -((canvas.height - inner.height) / 2), canvas);
}

}  // namespace tritium
