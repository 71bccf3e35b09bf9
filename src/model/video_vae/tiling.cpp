#include "model/video_vae/tiling.h"

#include <algorithm>
#include <numeric>

namespace tritium::video_vae {

AxisTiles tile_axis(int length, int tile, int min_overlap, int step) {
  AxisTiles out{length, std::min(length, tile), {0}, {}};
  if (length <= tile) return out;
  const auto covered = [&](int count) { return tile * count - min_overlap * (count - 1); };
  int count = (length + tile - 1) / tile;
  while (covered(count) < length) ++count;
  const int seams = count - 1;
  out.overlaps.assign(static_cast<std::size_t>(seams), min_overlap);
  const int units = (covered(count) - length) / step;
  for (int unit = 0; unit < units; ++unit) out.overlaps[static_cast<std::size_t>(unit % seams)] += step;
  for (const int overlap : out.overlaps) out.starts.push_back(out.starts.back() + tile - overlap);
  return out;
}

std::vector<int> TemporalGeometry::kept_frames() const {
  std::vector<int> frames(static_cast<std::size_t>(clip_length + frame_overlap()));
  const auto look_ahead = frames.begin() + clip_length;
  std::iota(frames.begin(), look_ahead, front_pad());
  std::iota(look_ahead, frames.end(), tokens_per_clip() * ratio + front_pad());
  return frames;
}

std::vector<int> TemporalGeometry::own_frames() const {
  std::vector<int> frames(static_cast<std::size_t>(clip_length));
  std::iota(frames.begin(), frames.end(), front_pad());
  return frames;
}

DecodePlan plan_decode(const TemporalGeometry& geometry, int tokens) {
  const int group = geometry.tokens_per_clip();
  DecodePlan plan;
  const int filled = tokens + geometry.token_drop;
  plan.pad_tokens = (group - filled % group) % group;
  plan.clips = (filled + plan.pad_tokens) / group - 1;
  if (plan.clips < 1) {
    plan.pad_tokens += group;
    plan.clips = 1;
  }
  plan.total_frames = plan.clips * geometry.clip_length + geometry.frame_overlap();
  for (int index = tokens; index < tokens + plan.pad_tokens; ++index) plan.dropped_tail_frames += geometry.frames_of_token(index);
  plan.output_frames = plan.total_frames - plan.dropped_tail_frames;
  return plan;
}

EncodePlan plan_encode(const TemporalGeometry& geometry, int frames) {
  EncodePlan plan;
  plan.clips = (frames + geometry.clip_length - 1) / geometry.clip_length;
  plan.padded_frames = plan.clips * geometry.clip_length;
  plan.tokens_before_drop = plan.clips * geometry.tokens_per_clip();
  plan.tokens = plan.tokens_before_drop - geometry.token_drop;
  return plan;
}

std::optional<int> usable_video_frames(const TemporalGeometry& geometry, int frames) {
  const int clips = (frames - geometry.frame_overlap()) / geometry.clip_length;
  if (clips < 1) return std::nullopt;
  return clips * geometry.clip_length + geometry.frame_overlap();
}

}  // namespace tritium::video_vae
