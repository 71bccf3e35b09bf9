// Which frames of a video the clips of an encode see. Pure arithmetic. Source: spec/vae.md §1.4.
#pragma once

#include "model/video_vae/tiling.h"

#include <tritium/result.h>

namespace tritium::video_vae {

// How the frames of a video become tokens.
enum class FrameRule {
  reference,     // as the pipelines encode videos: cut to whole clips and a look-ahead (17n + 5 frames), of which one clip is needed
  every_frame,   // any number of frames from 1: the last one is repeated to whole clips, the last tokens are dropped
  continuation,  // black frames in front so that the last token is a whole one; no token is dropped
};

struct EncodeSchedule {
  struct Clip {
    int first_frame = 0;  // of the video; negative: so many black frames come first
    int tokens = 0;       // how many are wanted, at least 1
  };
  int used_frames = 0;  // of the video; the clips repeat the last of them where they go beyond it
  int tokens = 0;       // of all clips together
  // Tokens that the reference draws noise for. More than `tokens` when it cuts off some only afterwards: those that come from frames
  // behind the end of a continued video.
  int drawn_tokens = 0;
  std::vector<Clip> clips;
};

// Error (usage, field "frames"): too few frames for the rule.
Result<EncodeSchedule> schedule_encode(const TemporalGeometry& geometry, int frames, FrameRule rule);

// Token k of a clip sees frames up to k·ratio: step 0 is the first frame, every later step the next `ratio` frames.
inline int frames_for_tokens(const TemporalGeometry& geometry, int tokens) { return (tokens - 1) * geometry.ratio + 1; }

}  // namespace tritium::video_vae
