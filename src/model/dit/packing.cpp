#include "model/dit/packing.h"

#include "base/try.h"
#include "model/geometry/condition_level.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>

namespace tritium {
namespace {

using ExactPosition = std::array<double, 3>;

constexpr double kPositionsPerFrame = 5.0 / 3.0;  // 40 positions per second at 24 frames per second
constexpr double kGridSide = 32.0;                // coordinates that a square object spans

// The first latent of each group of five stands for one pixel frame, the others for four.
constexpr int frames_of_latent(int latent) { return latent % kLatentsPerClip == 0 ? 1 : 4; }

constexpr std::int64_t pixel_frames(int latents) {
  const int rest = latents % kLatentsPerClip;
  return std::int64_t{latents} / kLatentsPerClip * kFramesPerClip + (rest == 0 ? 0 : 1 + 4 * (rest - 1));
}

Error bad(const char* field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), field, std::move(hint)};
}

Result<void> check_visual(const char* field, const VideoLatentShape& shape) {
  if (shape.frames >= 1 && check_shape(shape).ok()) return {};
  return bad(field, fmt::format("a latent of {} frames and {}x{} cells cannot be packed", shape.frames, shape.height, shape.width),
             "at least one frame, height and width even and positive");
}

Result<void> check_reference(const Reference& reference, std::size_t index) {
  const int frames = reference.visual.frames;
  const int sound = reference.audio_latents;
  const auto wrong = [&](const char* kind, const char* needs) {
    return bad("reference", fmt::format("reference {} ({}) has {} frames and {} audio latents", index + 1, kind, frames, sound), needs);
  };
  switch (reference.kind) {
    case ReferenceKind::audio:
      return frames == 0 && sound >= 1 ? Result<void>{} : wrong("audio", "no frames and at least 1 audio latent");
    case ReferenceKind::image:
      if (frames != 1 || sound != 0) return wrong("image", "one frame and no sound");
      break;
    case ReferenceKind::video:
      if (frames < 1 || sound < 0) return wrong("video", "at least one frame");
      break;
  }
  return check_visual("reference", reference.visual);
}

Result<void> check_request(const PackingRequest& request) {
  if (request.text_tags.empty()) return bad("prompt", "the prompt has no tokens", "at least one is needed");
  if (std::find(request.text_tags.begin(), request.text_tags.end(), Modality::audio) != request.text_tags.end())
    return bad("prompt", "a text row is tagged as audio", "only text and video (vision token) are possible");
  TRITIUM_TRY(check_visual("video", request.video));
  if (request.audio_latents < 1)
    return bad("audio", fmt::format("an audio latent of length {} cannot be packed", request.audio_latents), "at least 1 is needed");
  const std::int64_t frames = pixel_frames(request.video.frames);
  for (const int frame : request.keyframes) {
    if (frame != kLastFrame && (frame < 0 || frame >= frames))
      return bad("keyframe", fmt::format("frame {} is outside 0..{}", frame, frames - 1), "-1 is the last frame");
  }
  for (std::size_t i = 0; i < request.references.size(); ++i) TRITIUM_TRY(check_reference(request.references[i], i));
  return {};
}

// Appends the positions of the rows of one object after the other. Precondition: a valid request.
class PositionBuilder {
 public:
  explicit PositionBuilder(const PackingRequest& request) : request_(request) {}

  std::vector<ExactPosition> run() {
    const auto text = static_cast<double>(request_.text_tags.size());
    for (std::size_t i = 0; i < request_.text_tags.size(); ++i) out_.push_back({static_cast<double>(i), 0, 0});
    const auto h = spatial_axis(request_.video.height, request_.video.height, request_.video.width);
    const auto w = spatial_axis(request_.video.width, request_.video.height, request_.video.width);
    double origin = text;  // of the target: after the text and the references
    for (const Reference& reference : request_.references) origin += duration(reference);
    const auto times = video_time_axis(request_.video.frames);
    for (const int frame : request_.keyframes) add_plane(origin + keyframe_time(frame, times.back()), h, w);
    double cursor = text;
    for (const Reference& reference : request_.references) {
      add_reference(reference, cursor, w);
      cursor += duration(reference);
    }
    add_audio(origin, request_.audio_latents, w);
    add_video(origin, times, h, w);
    return std::move(out_);
  }

 private:
  // Length on the time axis.
  static double duration(const Reference& reference) {
    if (reference.kind == ReferenceKind::image) return 1.0;
    return std::max(video_time_axis(reference.visual.frames).back(), static_cast<double>(reference.audio_latents));
  }

  // After the origin of the target. The last frame is the last pixel frame, not the start of the last latent.
  double keyframe_time(int frame, double whole) const {
    const bool last = frame == kLastFrame || frame == pixel_frames(request_.video.frames) - 1;
    return last && frame != 0 ? whole - kPositionsPerFrame : kPositionsPerFrame * frame;
  }

  void add_plane(double t, const std::vector<double>& h, const std::vector<double>& w) {
    for (const double y : h)
      for (const double x : w) out_.push_back({t, y, x});
  }

  void add_video(double origin, const std::vector<double>& times, const std::vector<double>& h, const std::vector<double>& w) {
    for (std::size_t k = 0; k + 1 < times.size(); ++k) add_plane(origin + times[k], h, w);
  }

  // The left channel sits at the first column of the picture it belongs to, the right channel at the last.
  void add_audio(double origin, int latents, const std::vector<double>& w) {
    for (const double side : {w.front(), w.back()})
      for (int i = 0; i < latents; ++i) out_.push_back({origin + i, 0, side});
  }

  void add_reference(const Reference& reference, double origin, const std::vector<double>& target_w) {
    const VideoLatentShape& shape = reference.visual;
    if (reference.kind == ReferenceKind::audio) return add_audio(origin, reference.audio_latents, target_w);
    const auto h = spatial_axis(shape.height, shape.height, shape.width);
    const auto w = spatial_axis(shape.width, shape.height, shape.width);
    add_audio(origin, reference.audio_latents, w);
    add_video(origin, video_time_axis(shape.frames), h, w);
  }

  const PackingRequest& request_;
  std::vector<ExactPosition> out_;
};

template <class Wanted>
std::vector<std::int32_t> rows_where(const PackedLayout& layout, Wanted wanted) {
  std::vector<std::int32_t> out;
  for (const Segment& segment : layout.segments)
    if (wanted(segment.role))
      for (int row = segment.first; row < segment.end(); ++row) out.push_back(row);
  return out;
}

// Rows with one time and one modality, before the distinct times are known.
struct TimedRun {
  int first;
  int rows;
  float time;
  Modality modality;
};

class RunBuilder {
 public:
  RunBuilder(const PackedLayout& layout, float video_time, float audio_time, const RetakeMasks& masks)
      : layout_(layout), video_time_(video_time), audio_time_(audio_time), masks_(masks) {}

  std::vector<TimedRun> run() {
    for (const Segment& segment : layout_.segments) add_segment(segment);
    return std::move(out_);
  }

 private:
  void add(int rows, float time, Modality modality) {
    if (rows == 0) return;
    if (!out_.empty() && out_.back().time == time && out_.back().modality == modality) {
      out_.back().rows += rows;
    } else {
      const int first = out_.empty() ? 0 : out_.back().first + out_.back().rows;
      out_.push_back({first, rows, time, modality});
    }
  }

  void add_target(const RetakeMask& mask, int frames, int rows_per_frame, float time, Modality modality) {
    if (mask.empty()) return add(frames * rows_per_frame, time, modality);
    for (const std::uint8_t regenerate : mask) add(rows_per_frame, regenerate != 0 ? time : kCleanConditionLevel, modality);
  }

  void add_segment(const Segment& segment) {
    switch (segment.role) {
      case RowRole::text:
        for (int row = segment.first; row < segment.end(); ++row) add(1, video_time_, layout_.tags[static_cast<std::size_t>(row)]);
        return;
      case RowRole::keyframe:
      case RowRole::reference_visual:
        return add(segment.rows, std::max(video_time_, kVisualConditionLevel), Modality::video);
      case RowRole::reference_audio:
        return add(segment.rows, std::max(audio_time_, kCleanConditionLevel), Modality::audio);
      case RowRole::target_audio:
        for (int channel = 0; channel < kAudioChannels; ++channel)
          add_target(masks_.audio, layout_.audio_latents, 1, audio_time_, Modality::audio);
        return;
      case RowRole::target_video:
        return add_target(masks_.video, layout_.video.frames, layout_.video.rows_per_frame(), video_time_, Modality::video);
    }
  }

  const PackedLayout& layout_;
  float video_time_, audio_time_;
  const RetakeMasks& masks_;
  std::vector<TimedRun> out_;
};

Result<void> check_mask(const char* stream, const RetakeMask& mask, int frames) {
  if (mask.empty() || mask.size() == static_cast<std::size_t>(frames)) return {};
  return Error{ErrorCode::failure, fmt::format("the {} mask has {} values, the latent has {} frames", stream, mask.size(), frames),
               "retake", ""};
}

}  // namespace

std::vector<double> spatial_axis(int cells, int height, int width) {
  const int patches = cells / kPatch;
  const double relative = cells / std::sqrt(static_cast<double>(height) * width);
  const double low = (1.0 - relative) / 2.0;
  const double step = ((low + relative) - low) / patches;  // the end point is excluded
  std::vector<double> out(static_cast<std::size_t>(patches));
  for (int i = 0; i < patches; ++i) out[static_cast<std::size_t>(i)] = (low + i * step) * kGridSide;
  return out;
}

std::vector<double> video_time_axis(int latents) {
  std::vector<double> out{0.0};
  for (int k = 0; k < latents; ++k) out.push_back(out.back() + kPositionsPerFrame * frames_of_latent(k));
  return out;
}

Result<std::vector<Segment>> packed_segments(const PackingRequest& request) {
  TRITIUM_TRY(check_request(request));
  std::vector<Segment> out;
  std::int64_t total = 0;
  const auto add = [&](RowRole role, std::int64_t rows, std::size_t condition) {
    if (rows > 0) out.push_back({role, static_cast<int>(condition), static_cast<int>(total), static_cast<int>(rows)});
    total += rows;
  };
  constexpr auto kNone = static_cast<std::size_t>(-1);
  add(RowRole::text, static_cast<std::int64_t>(request.text_tags.size()), kNone);
  for (std::size_t i = 0; i < request.keyframes.size(); ++i) add(RowRole::keyframe, request.video.rows_per_frame(), i);
  for (std::size_t i = 0; i < request.references.size(); ++i) {
    add(RowRole::reference_audio, AudioLatentShape{1, request.references[i].audio_latents}.rows(), i);
    add(RowRole::reference_visual, request.references[i].visual.rows(), i);
  }
  add(RowRole::target_audio, AudioLatentShape{1, request.audio_latents}.rows(), kNone);
  add(RowRole::target_video, request.video.rows(), kNone);
  if (total > std::numeric_limits<std::int32_t>::max())
    return bad("video", fmt::format("{} rows are more than a sequence can have", total), "choose a shorter or smaller clip");
  return out;
}

Result<std::vector<ExactPosition>> exact_positions(const PackingRequest& request) {
  TRITIUM_TRY(packed_segments(request));
  return PositionBuilder(request).run();
}

Result<PackedLayout> make_layout(const PackingRequest& request) {
  PackedLayout layout;
  TRITIUM_TRY_ASSIGN(layout.segments, packed_segments(request));
  layout.video = request.video;
  layout.audio_latents = request.audio_latents;
  const auto exact = PositionBuilder(request).run();
  layout.positions.reserve(exact.size());
  for (const ExactPosition& p : exact)
    layout.positions.push_back({static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])});
  layout.tags = request.text_tags;
  layout.tags.resize(static_cast<std::size_t>(layout.rows()), Modality::video);
  for (const std::int32_t row : audio_rows(layout)) layout.tags[static_cast<std::size_t>(row)] = Modality::audio;
  return layout;
}

std::vector<std::int32_t> text_rows(const PackedLayout& layout) {
  return rows_where(layout, [](RowRole role) { return role == RowRole::text; });
}

std::vector<std::int32_t> visual_rows(const PackedLayout& layout) {
  return rows_where(
      layout, [](RowRole role) { return role == RowRole::keyframe || role == RowRole::reference_visual || role == RowRole::target_video; });
}

std::vector<std::int32_t> audio_rows(const PackedLayout& layout) {
  return rows_where(layout, [](RowRole role) { return role == RowRole::reference_audio || role == RowRole::target_audio; });
}

Result<RowTimesteps> assign_timesteps(const PackedLayout& layout, float video_time, float audio_time, const RetakeMasks& masks) {
  TRITIUM_TRY(check_mask("video", masks.video, layout.video.frames));
  TRITIUM_TRY(check_mask("audio", masks.audio, layout.audio_latents));
  if (!std::isfinite(video_time) || !std::isfinite(audio_time))
    return Error{ErrorCode::failure, fmt::format("times {} (video) and {} (audio) must be finite", video_time, audio_time), "sigma", ""};
  const std::vector<TimedRun> timed = RunBuilder(layout, video_time, audio_time, masks).run();
  RowTimesteps out;
  for (const TimedRun& run : timed) out.values.push_back(run.time);
  std::sort(out.values.begin(), out.values.end());
  out.values.erase(std::unique(out.values.begin(), out.values.end()), out.values.end());
  out.index.reserve(static_cast<std::size_t>(layout.rows()));
  for (const TimedRun& run : timed) {
    const auto at = std::lower_bound(out.values.begin(), out.values.end(), run.time) - out.values.begin();
    out.runs.push_back({run.first, run.rows, static_cast<int>(at), run.modality});
    out.index.insert(out.index.end(), static_cast<std::size_t>(run.rows), static_cast<std::uint8_t>(at));
  }
  return out;
}

}  // namespace tritium
