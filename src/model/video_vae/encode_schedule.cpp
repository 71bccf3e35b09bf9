#include "model/video_vae/encode_schedule.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::video_vae {
namespace {

// Black frames that make the last token of a continued video a whole one.
int frames_to_whole_token(const TemporalGeometry& geometry, int frames) {
  const auto whole = [&](int count) {
    const int rest = count % geometry.clip_length;
    return rest == 0 || (rest - 1) % geometry.ratio == 0;
  };
  int black = 0;
  while (!whole(frames + black)) ++black;
  return black;
}

int tokens_without_drop(const TemporalGeometry& geometry, int frames) {
  const int rest = frames % geometry.clip_length;
  return frames / geometry.clip_length * geometry.tokens_per_clip() + (rest > 0 ? (rest - 1) / geometry.ratio + 1 : 0);
}

}  // namespace

Result<EncodeSchedule> schedule_encode(const TemporalGeometry& geometry, int frames, FrameRule rule) {
  const int fewest = rule == FrameRule::reference ? geometry.clip_length + geometry.frame_overlap() : 1;
  if (frames < fewest)
    return Error{ErrorCode::usage, fmt::format("a video of {} frames is too short to encode", frames), "frames",
                 fmt::format("at least {} frames are needed", fewest)};
  EncodeSchedule out;
  out.used_frames = frames;
  int black = 0;
  switch (rule) {
    case FrameRule::reference:
      out.used_frames = usable_video_frames(geometry, frames).value_or(frames);
      out.tokens = plan_encode(geometry, out.used_frames).tokens;
      break;
    case FrameRule::every_frame:
      out.tokens = plan_encode(geometry, frames).tokens;
      break;
    case FrameRule::continuation:
      black = frames_to_whole_token(geometry, frames);
      out.tokens = tokens_without_drop(geometry, black + frames);
      break;
  }
  const int per_clip = geometry.tokens_per_clip();
  out.drawn_tokens = rule == FrameRule::continuation ? (out.tokens + per_clip - 1) / per_clip * per_clip : out.tokens;
  for (int token = 0; token < out.tokens; token += per_clip)
    out.clips.push_back({token / per_clip * geometry.clip_length - black, std::min(per_clip, out.tokens - token)});
  return out;
}

}  // namespace tritium::video_vae
