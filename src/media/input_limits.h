// How many files of which kind one request may hand in. Source: the model card's limits (spec/text.md §5.6).
#pragma once

#include <tritium/result.h>

#include <span>

namespace tritium {

inline constexpr int kMaxImages = 9, kMaxVideos = 3, kMaxSounds = 3, kMaxReferences = 12;
inline constexpr double kMinVideoSeconds = 2, kMaxVideoSeconds = 15;  // of one video, and the upper one of all together

struct ReferenceCounts {
  int images = 0;
  int videos = 0;  // with or without their sound
  int sounds = 0;  // files of their own
};

// Error (usage) naming the count and the limit. Sound needs at least one image or video beside it.
Result<void> check_reference_counts(const ReferenceCounts& counts);

// Frames at 24 per second of every video of the request. Error (usage) when they are too long together; each by itself is load_video's.
Result<void> check_total_video_length(std::span<const int> frames);

}  // namespace tritium
