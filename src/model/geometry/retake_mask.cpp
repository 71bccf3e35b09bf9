#include "model/geometry/retake_mask.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

void regenerate(RetakeMask& mask, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::int64_t>(mask.size());
  const std::int64_t first = std::clamp<std::int64_t>(begin, 0, size);
  std::fill(mask.begin() + first, mask.begin() + std::clamp<std::int64_t>(end, first, size), std::uint8_t{1});
}

void regenerate_frames(RetakeMask& mask, std::int64_t begin, std::int64_t end) {
  regenerate(mask, begin / kFramesPerClip * kLatentsPerClip, (end + kFramesPerClip - 1) / kFramesPerClip * kLatentsPerClip);
}

}  // namespace

Result<RetakeMask> video_retake_mask(std::span<const FrameRegion> regions, const ClipLength& clip, std::int64_t source_frames) {
  RetakeMask mask(static_cast<std::size_t>(clip.video_latents), 0);
  for (const FrameRegion& region : regions) {
    if (region.begin < 0 || region.begin >= clip.frames || region.end <= region.begin) {
      return Error{ErrorCode::usage,
                   fmt::format("frames {}..{} are not a region of a clip of {} frames", region.begin, region.end, clip.frames),
                   "retake_frames", "a region is begin..end with 0 <= begin < end, begin inside the clip"};
    }
    regenerate_frames(mask, region.begin, std::min<std::int64_t>(region.end, clip.frames));
  }
  if (source_frames < clip.frames) regenerate_frames(mask, std::max<std::int64_t>(source_frames, 0), clip.frames);
  return mask;
}

Result<RetakeMask> audio_retake_mask(std::span<const SecondsRegion> regions, const ClipLength& clip, std::int64_t source_latents) {
  RetakeMask mask(static_cast<std::size_t>(clip.audio_latents), 0);
  for (const SecondsRegion& region : regions) {
    const double begin = std::floor(region.begin * kAudioLatentsPerSecond);
    const double end = std::ceil(region.end * kAudioLatentsPerSecond);
    if (!(region.begin >= 0 && region.end > region.begin && begin < clip.audio_latents)) {
      return Error{ErrorCode::usage,
                   fmt::format("{}..{} s is not a region of a clip of {:.3f} s", region.begin, region.end, clip.seconds()),
                   "retake_seconds", "a region is begin..end with 0 <= begin < end, begin inside the clip"};
    }
    regenerate(mask, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(std::min<double>(end, clip.audio_latents)));
  }
  if (source_latents < clip.audio_latents) regenerate(mask, source_latents, clip.audio_latents);
  return mask;
}

}  // namespace tritium
