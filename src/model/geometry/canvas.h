// Sizes in pixels: the canvas to generate and the sizes to which keyframes and references are scaled before encoding.
// All rounding is half to even, on doubles, in the order of the formulas. Source: spec/dit.md §9, spec/text.md §5.5.
#pragma once

#include <tritium/result.h>

#include <cstdint>

namespace tritium {

inline constexpr int kSizeStep = 32;               // every side is a multiple of this
inline constexpr int kMaxSide = 8192;              // longest side of a canvas
inline constexpr int kCanvasShortEdge = 768;       // of the trained canvas
inline constexpr int kCanvasMaxArea = 768 * 1344;  // of the trained canvas
inline constexpr int kReferenceShortEdge = 2048;   // of reference images in the official pipelines
inline constexpr double kMaxAspectRatio = 4.0;     // long side : short side of a canvas or a reference image

struct Size {
  int width = 0;
  int height = 0;

  [[nodiscard]] std::int64_t area() const { return std::int64_t{width} * height; }
  bool operator==(const Size&) const = default;
};

// Both sides rounded up to multiples of 32. Error (usage, field "width" or "height"): outside 1..8192.
Result<Size> snap_size_up(std::int64_t width, std::int64_t height);
// For callers that must not adjust: the size as given. Error (usage, field "width" or "height"): not a multiple of 32 in 32..8192.
Result<Size> exact_size(std::int64_t width, std::int64_t height);

// The default canvas for an aspect ratio width:height (any unit): short edge 768, at most 768*1344 pixels.
// Error (usage, field "aspect_ratio"): not positive and finite, or beyond 1:4..4:1.
Result<Size> canvas_for_ratio(double width, double height);

// The same rule for other bounds, without limits. Precondition: everything positive and finite.
[[nodiscard]] Size canvas_within(double width, double height, int short_edge, std::int64_t max_area);

// Scaling rules without limits. Precondition: sides of `source` and the bounds are positive.
// Each side times `short_edge / shorter side`, to the nearest multiple of 32 (at least 32).
[[nodiscard]] Size scale_to_short_edge(Size source, int short_edge);
// The same with the smaller of that factor and sqrt(max_area / area).
[[nodiscard]] Size scale_to_short_edge_within(Size source, int short_edge, std::int64_t max_area);
// The same with the factor min(1, sqrt(max_area / area)): never enlarges (apart from the rounding).
[[nodiscard]] Size shrink_to_area(Size source, std::int64_t max_area);

// How a reference image is sized: `match` shrinks it to the canvas area (little memory; what Turbo adapters were trained with),
// `short_edge` always scales the short edge to 2048, also upwards (the official pipelines).
enum class ReferenceFit { match, short_edge };

// Error (usage, field "reference_image"): a side is not positive, or the ratio is beyond 1:4..4:1.
Result<Size> reference_image_size(std::int64_t width, std::int64_t height, ReferenceFit fit, Size canvas);
// Short edge 768, at most 768*1344 pixels. Error (usage, field "reference_video"): a side is not positive or above 65536.
Result<Size> reference_video_size(std::int64_t width, std::int64_t height);

// Cover-scale and centred crop, used for a second keyframe: scale to `scaled`, then cut the canvas out at (left, top).
struct CoverFit {
  Size scaled;
  int left = 0;
  int top = 0;
};
// Precondition: sides of both are positive.
[[nodiscard]] CoverFit cover_fit(Size source, Size canvas);

}  // namespace tritium
