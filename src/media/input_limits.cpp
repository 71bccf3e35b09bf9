#include "media/input_limits.h"

#include "base/try.h"
#include "media/frame_clock.h"

#include <fmt/format.h>
#include <cmath>
#include <cstdint>

namespace tritium {
namespace {

Result<void> check_count(const char* what, int count, int limit) {
  if (count >= 0 && count <= limit) return {};
  return Error{ErrorCode::usage, fmt::format("{} {} were given, at most {} are taken", count, what, limit), "", "give fewer"};
}

}  // namespace

Result<void> check_reference_counts(const ReferenceCounts& counts) {
  TRITIUM_TRY(check_count("reference images", counts.images, kMaxImages));
  TRITIUM_TRY(check_count("reference videos", counts.videos, kMaxVideos));
  TRITIUM_TRY(check_count("reference sounds", counts.sounds, kMaxSounds));
  TRITIUM_TRY(check_count("references", counts.images + counts.videos + counts.sounds, kMaxReferences));
  if (counts.sounds > 0 && counts.images + counts.videos == 0)
    return Error{ErrorCode::usage, "a reference sound cannot stand alone", "", "add a reference image or video"};
  return {};
}

Result<void> check_total_video_length(std::span<const int> frames) {
  std::int64_t sum = 0;
  for (const int count : frames) sum += count;
  if (sum <= std::llround(kMaxVideoSeconds * kModelFps)) return {};
  return Error{ErrorCode::usage,
               fmt::format("the reference videos last {:.2f} s together, at most {:g} s are taken", static_cast<double>(sum) / kModelFps,
                           kMaxVideoSeconds),
               "", "use shorter videos"};
}

}  // namespace tritium
