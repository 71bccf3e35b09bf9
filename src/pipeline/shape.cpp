#include "pipeline/shape.h"

#include "base/try.h"
#include "model/geometry/clip_length.h"
#include "pipeline/modes.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

void adjust(Plan& plan, const char* field, std::int64_t from, std::int64_t to, const char* reason) {
  if (from != to) plan.adjustments.push_back({field, std::to_string(from), std::to_string(to), reason});
}

}  // namespace

Result<void> decide_size(const Request& request, const ModelDefaults& defaults, std::optional<Size> picture, Plan& plan) {
  const bool sized = request.width || request.height;
  if (sized && !request.aspect.empty())
    return Error{ErrorCode::usage, "given together with a size; they say the same thing", "aspect", "give width and height, or the aspect"};
  if (request.aspect == "auto" && !picture)
    return Error{ErrorCode::usage, "'auto' needs a keyframe or a clip to take the shape from", "aspect", "write e.g. 16:9"};
  if (!sized && (picture || !request.aspect.empty())) {
    double ratio = 0;
    if (picture && (request.aspect.empty() || request.aspect == "auto")) {
      ratio = std::clamp(static_cast<double>(picture->width) / picture->height, 1 / kMaxAspectRatio, kMaxAspectRatio);
    } else {
      TRITIUM_TRY_ASSIGN(ratio, parse_aspect(request.aspect));
    }
    const Size canvas = canvas_within(ratio, 1, std::min(defaults.width, defaults.height), std::int64_t{defaults.width} * defaults.height);
    plan.width = canvas.width;
    plan.height = canvas.height;
    return {};
  }
  const std::int64_t width = request.width.value_or(defaults.width), height = request.height.value_or(defaults.height);
  TRITIUM_TRY_ASSIGN(const Size size, snap_size_up(width, height));
  adjust(plan, "width", width, size.width, "sizes are multiples of 32");
  adjust(plan, "height", height, size.height, "sizes are multiples of 32");
  plan.width = size.width;
  plan.height = size.height;
  return {};
}

Result<void> decide_length(const Request& request, const ModelDefaults& defaults, std::optional<int> clip_frames, Plan& plan) {
  if (request.frames && request.seconds)
    return Error{ErrorCode::usage, "given together with seconds; they say the same thing", "frames", "give one of them"};
  const std::int64_t frames = request.frames.value_or(clip_frames.value_or(defaults.frames));
  const auto length = request.seconds ? clip_length_from_seconds(*request.seconds) : clip_length_from_frames(frames);
  if (!length.ok()) return length.error();
  if (request.seconds) {
    if (std::abs(*request.seconds - length->seconds()) > 1e-4)
      plan.adjustments.push_back({"seconds", fmt::format("{:g}", *request.seconds), fmt::format("{:.5g}", length->seconds()),
                                  "clips have 17n+5 frames at 24 per second"});
  } else {
    adjust(plan, "frames", frames, length->frames, "clips have 17n+5 frames");
  }
  plan.frames = length->frames;
  plan.latent_frames = length->video_latents;
  plan.audio_latents = length->audio_latents;
  return {};
}

}  // namespace tritium
