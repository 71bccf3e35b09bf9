// How long a clip is, in its three units: pixel frames (24 per second), video latents and audio latents (40 per second).
// A clip has F = 17n+5 frames (n >= 0), T = 5n+2 video latents and A = round(F/24*40) audio latents. Source: spec/dit.md §9.
#pragma once

#include <tritium/result.h>

#include <cstdint>

namespace tritium {

inline constexpr int kFramesPerSecond = 24;
inline constexpr int kAudioLatentsPerSecond = 40;
inline constexpr int kFramesPerClip = 17;  // pixel frames that five video latents stand for
inline constexpr int kLatentsPerClip = 5;
inline constexpr int kExtraFrames = 5;  // the frames of the last, incomplete group of two latents
inline constexpr int kExtraLatents = 2;

// The model was trained on 124..362 frames (5.2 to 15.1 s). Other lengths run, but are worth a warning.
inline constexpr int kTrainedMinFrames = 124;
inline constexpr int kTrainedMaxFrames = 362;
// The longest length any known interface for this model accepts (a request of 3600 frames, 150 s); longer ones are refused.
inline constexpr int kMinFrames = kExtraFrames;
inline constexpr int kMaxFrames = 3609;

// The lattice itself, without limits. Precondition: 1 <= frames <= INT32_MAX - 17 (any value up to 5 gives 5).
[[nodiscard]] int align_frames_up(int frames);
// Largest 17n+5 <= frames. Precondition: frames >= 5.
[[nodiscard]] int align_frames_down(int frames);
[[nodiscard]] inline bool is_clip_length(int frames) { return frames >= kMinFrames && (frames - kExtraFrames) % kFramesPerClip == 0; }
// Precondition of both: is_clip_length(frames).
[[nodiscard]] int video_latents_of(int frames);
[[nodiscard]] int audio_latents_of(int frames);

struct ClipLength {
  int frames = 0;         // F, on the lattice
  int video_latents = 0;  // T
  int audio_latents = 0;  // A, per stereo channel

  [[nodiscard]] double seconds() const { return static_cast<double>(frames) / kFramesPerSecond; }
  [[nodiscard]] bool trained() const { return frames >= kTrainedMinFrames && frames <= kTrainedMaxFrames; }
  bool operator==(const ClipLength&) const = default;
};

// The shortest clip with at least this many frames. Error (usage, field "frames"): outside 1..3609.
Result<ClipLength> clip_length_from_frames(std::int64_t frames);
// The shortest clip that lasts at least this long, to a thousandth of a frame, so that a length printed with five decimals
// gives the same clip again. Error (usage, field "seconds"): not finite, not positive, or above 3609/24.
Result<ClipLength> clip_length_from_seconds(double seconds);
// The clip whose video latent has T frames. Error (usage, field "video_latents"): T is not 5n+2 or out of range; names the nearest.
Result<ClipLength> clip_length_from_latents(std::int64_t video_latents);
// The same, and the audio latent must have the length that belongs to it (field "audio_latents").
Result<ClipLength> clip_length_from_latents(std::int64_t video_latents, std::int64_t audio_latents);

// Number of leading frames of a reference video (already at 24 fps) that are used: not more than the target has, cut down to 17n+5.
// Error (usage, field "reference_video"): fewer than 22 frames remain (spec/dit.md §9).
Result<int> reference_video_frames(std::int64_t available, int target_frames);

}  // namespace tritium
