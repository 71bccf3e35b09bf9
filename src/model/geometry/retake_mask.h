// Which latents a retake regenerates. Source: spec/dit.md §12.
#pragma once

#include "model/geometry/clip_length.h"

#include <tritium/result.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

// One value per latent frame of a stream: 1 = regenerate, 0 = keep the given clip. An empty mask means that the stream is not
// part of a retake: everything is generated.
using RetakeMask = std::vector<std::uint8_t>;

struct RetakeMasks {
  RetakeMask video;  // [T]
  RetakeMask audio;  // [A], for both channels
};

struct FrameRegion {  // half open, in pixel frames
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
struct SecondsRegion {  // half open
  double begin = 0;
  double end = 0;
};

// A region regenerates every group of 17 frames that it touches. `source_frames`: length of the given clip; what lies beyond its
// end is regenerated. No regions: the whole given clip is kept. Error (usage, field "retake_frames"): a region is empty or starts
// outside the clip.
Result<RetakeMask> video_retake_mask(std::span<const FrameRegion> regions, const ClipLength& clip, std::int64_t source_frames);
// The same for the sound; `source_latents`: audio latents of the given clip. Error field: "retake_seconds".
Result<RetakeMask> audio_retake_mask(std::span<const SecondsRegion> regions, const ClipLength& clip, std::int64_t source_latents);

}  // namespace tritium
