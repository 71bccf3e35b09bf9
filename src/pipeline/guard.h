// Looks at numbers and finished clips and says what is wrong with them, so that a black, frozen or silent clip is never reported
// as a success.
//
// The guards speak only about the whole clip: it is refused when nothing at all can be seen, when nothing at all moves, or when
// nothing at all can be heard. A clip that fades from black, a still scene with the model's own faint noise, or sound that falls
// silent half-way is what somebody may have asked for; it gives a warning at most.
#pragma once

#include "media/clip.h"

#include <tritium/result.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritium {

// Error `rejected` naming stage and step (when step >= 0), how many values are not finite, and the first one.
Result<void> check_finite(std::span<const float> values, std::string_view stage, int step = -1);

// A spot of fewer pixels cannot be seen: 10 pixels of 1344x768, none of 96x96. Whatever covers more saves the frame.
inline constexpr double kUnseenShare = 1e-5;
// Luma (BT.709 weights of 0..255 values) up to which a pixel looks black: the darkest step that screens show apart is about there,
// and a decoder's noise around black stays below.
inline constexpr double kBlackLuma = 16;
// Difference of a channel that no one sees: rounding gives 1, a decoder's ringing in an even area 2.
inline constexpr int kEvenLevels = 2;
// Mean difference to the first frame, in levels. A decoded still scene has noise and measures above 0.1; a picture that was repeated
// measures 0. Both this and "no visible spot changed" must hold before a clip counts as frozen.
inline constexpr double kFrozenMean = 0.05;
// RMS of the loudest 100 ms, without its mean value (a constant offset is no sound), in dB of full scale. -70 is also the level
// below which loudness metering (EBU R128) takes a block as silence.
inline constexpr double kSilenceDb = -70;
inline constexpr double kSilenceWindowSeconds = 0.1;
// A sample at or above kClippedLevel was cut off; music limited hard touches full scale in a few per mille of its samples.
inline constexpr double kClippedLevel = 0.999;
inline constexpr double kClippedShare = 0.02;

struct ClipExpectation {
  int frames = 0, width = 0, height = 0;
  std::int64_t samples = 0;  // per channel; 0: no sound expected, none is looked at
};

struct GuardReport {
  std::vector<std::string> problems;  // each one is reason enough to refuse the clip
  std::vector<std::string> warnings;  // worth recording

  // Measured; 0 when there was nothing to measure.
  int black_frames = 0;  // nothing brighter than kBlackLuma
  int flat_frames = 0;   // one colour all over
  double mean_luma = 0;  // of the whole clip, 0..255
  double max_luma = 0;
  double change = 0;                 // largest mean difference of a frame to the first, in levels
  double changed_share = 0;          // largest share of pixels that differ visibly from the first frame
  std::int64_t not_finite = 0;       // samples of both channels
  double peak = 0;                   // largest finite |sample|
  double left_db = 0, right_db = 0;  // loudest 100 ms of each channel; at least -200
  double clipped_share = 0;

  // Error `rejected` that lists all problems.
  [[nodiscard]] Result<void> verdict() const;
};

// Looks at the frames of a clip as they come; of the pictures it keeps the first.
class ClipInspector {
 public:
  ClipInspector(int width, int height) : width_(width), height_(height) {}

  // rgb: [height, width, 3]. Bytes that are not such a frame are a problem to report.
  void add(std::span<const std::uint8_t> rgb);

  // Never fails: sizes that contradict each other are problems themselves. Both channels empty: no sound is looked at.
  [[nodiscard]] GuardReport report(const ClipExpectation& expected, std::span<const float> left, std::span<const float> right,
                                   int sample_rate) const;

 private:
  int width_, height_, frames_ = 0;
  std::size_t torn_bytes_ = 0;  // of what was no frame
  std::vector<std::uint8_t> first_;
  double luma_sum_ = 0;   // of the frames' means
  GuardReport pictures_;  // what was measured so far, without mean_luma
};

// A whole clip.
GuardReport inspect_clip(const Clip& clip, const ClipExpectation& expected);

}  // namespace tritium
