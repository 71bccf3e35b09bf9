#include "model/geometry/clip_length.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr int kMinReferenceFrames = kFramesPerClip + kExtraFrames;  // a reference video needs one whole group of 17
constexpr double kFrameTolerance = 1e-3;                            // frames; far below what anyone means, far above rounding

ClipLength clip_of(int frames) { return {frames, video_latents_of(frames), audio_latents_of(frames)}; }

constexpr int kMaxLatents = (kMaxFrames - kExtraFrames) / kFramesPerClip * kLatentsPerClip + kExtraLatents;

std::int64_t nearest_latents(std::int64_t latents) {
  const std::int64_t bounded = std::clamp<std::int64_t>(latents, kExtraLatents, kMaxLatents);
  return (bounded - kExtraLatents + kLatentsPerClip / 2) / kLatentsPerClip * kLatentsPerClip + kExtraLatents;
}

}  // namespace

int align_frames_up(int frames) {
  if (frames <= kExtraFrames) return kExtraFrames;
  return (frames - kExtraFrames + kFramesPerClip - 1) / kFramesPerClip * kFramesPerClip + kExtraFrames;
}

int align_frames_down(int frames) { return (frames - kExtraFrames) / kFramesPerClip * kFramesPerClip + kExtraFrames; }

int video_latents_of(int frames) { return (frames - kExtraFrames) / kFramesPerClip * kLatentsPerClip + kExtraLatents; }

int audio_latents_of(int frames) {
  return static_cast<int>(std::nearbyint(static_cast<double>(frames) / kFramesPerSecond * kAudioLatentsPerSecond));
}

Result<ClipLength> clip_length_from_frames(std::int64_t frames) {
  if (frames < 1 || frames > kMaxFrames) {
    const int nearest = frames < 1 ? kMinFrames : kMaxFrames;
    return Error{ErrorCode::usage, fmt::format("{} frames requested, but a clip has 1..{} frames", frames, kMaxFrames), "frames",
                 fmt::format("the nearest possible length is {} frames ({:.3g} s)", nearest, clip_of(nearest).seconds())};
  }
  return clip_of(align_frames_up(static_cast<int>(frames)));
}

Result<ClipLength> clip_length_from_seconds(double seconds) {
  const double frames = std::ceil(seconds * kFramesPerSecond - kFrameTolerance);
  if (!std::isfinite(seconds) || seconds <= 0 || frames > kMaxFrames) {
    const int nearest = seconds > 0 ? kMaxFrames : kMinFrames;
    return Error{ErrorCode::usage,
                 fmt::format("{} s requested, but a clip lasts more than 0 and at most {} s", seconds, clip_of(kMaxFrames).seconds()),
                 "seconds", fmt::format("the nearest possible length is {} frames ({:.3g} s)", nearest, clip_of(nearest).seconds())};
  }
  return clip_of(align_frames_up(static_cast<int>(frames)));
}

Result<ClipLength> clip_length_from_latents(std::int64_t video_latents) {
  const std::int64_t nearest = nearest_latents(video_latents);
  if (video_latents != nearest) {
    return Error{
        ErrorCode::usage,
        fmt::format("a video latent of {} frames is not a clip: 5n+2 in {}..{} expected", video_latents, kExtraLatents, kMaxLatents),
        "video_latents", fmt::format("the nearest possible length is {}", nearest)};
  }
  return clip_of(static_cast<int>((nearest - kExtraLatents) / kLatentsPerClip) * kFramesPerClip + kExtraFrames);
}

Result<ClipLength> clip_length_from_latents(std::int64_t video_latents, std::int64_t audio_latents) {
  TRITIUM_TRY_ASSIGN(const ClipLength clip, clip_length_from_latents(video_latents));
  if (clip.audio_latents != audio_latents) {
    return Error{ErrorCode::usage,
                 fmt::format("{} audio latents do not belong to {} video latents ({} frames)", audio_latents, video_latents, clip.frames),
                 "audio_latents", fmt::format("{} expected", clip.audio_latents)};
  }
  return clip;
}

Result<int> reference_video_frames(std::int64_t available, int target_frames) {
  const std::int64_t usable = std::min<std::int64_t>(available, target_frames);
  if (usable >= kMinReferenceFrames) return align_frames_down(static_cast<int>(usable));
  const bool target_too_short = available >= kMinReferenceFrames;
  return Error{
      ErrorCode::usage,
      target_too_short ? fmt::format("a target of {} frames is too short for a reference video, which is cut to the target's length "
                                     "and needs at least {} frames",
                                     target_frames, kMinReferenceFrames)
                       : fmt::format("a reference video of {} frames (at 24 fps) is too short: at least {} frames are required", available,
                                     kMinReferenceFrames),
      "reference_video",
      target_too_short ? fmt::format("generate at least {} frames", kMinReferenceFrames)
                       : fmt::format("give a clip of at least {:.2f} s", static_cast<double>(kMinReferenceFrames) / kFramesPerSecond)};
}

}  // namespace tritium
