#include "pipeline/guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace tritium {
namespace {

constexpr double kNoSoundDb = -200;  // written instead of minus infinity

using Histogram = std::array<std::uint64_t, 256>;

struct FrameFacts {
  double mean_luma = 0, max_luma = 0;
  bool black = false, flat = false;
};

int median(const Histogram& counts, std::uint64_t total) {
  std::uint64_t below = 0;
  for (int level = 0; level < 256; ++level)
    if ((below += counts[static_cast<std::size_t>(level)]) * 2 >= total) return level;
  return 255;
}

// Share of a channel's pixels outside median +- kEvenLevels.
double uneven_share(const Histogram& counts, std::uint64_t total) {
  const int middle = median(counts, total);
  std::uint64_t outside = 0;
  for (int level = 0; level < 256; ++level)
    if (std::abs(level - middle) > kEvenLevels) outside += counts[static_cast<std::size_t>(level)];
  return static_cast<double>(outside) / static_cast<double>(total);
}

FrameFacts look_at(std::span<const std::uint8_t> rgb) {
  std::array<Histogram, 3> counts{};
  FrameFacts out;
  double sum = 0;
  std::uint64_t bright = 0;
  const std::uint64_t pixels = rgb.size() / 3;
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    const double luma = 0.2126 * rgb[i] + 0.7152 * rgb[i + 1] + 0.0722 * rgb[i + 2];
    sum += luma;
    out.max_luma = std::max(out.max_luma, luma);
    if (luma > kBlackLuma) ++bright;
    for (std::size_t c = 0; c < 3; ++c) ++counts[c][rgb[i + c]];
  }
  out.mean_luma = sum / static_cast<double>(pixels);
  out.black = static_cast<double>(bright) <= kUnseenShare * static_cast<double>(pixels);
  out.flat = std::all_of(counts.begin(), counts.end(), [&](const Histogram& h) { return uneven_share(h, pixels) <= kUnseenShare; });
  return out;
}

void compare_with_first(std::span<const std::uint8_t> first, std::span<const std::uint8_t> frame, GuardReport& report) {
  std::uint64_t sum = 0, changed = 0;
  for (std::size_t i = 0; i < frame.size(); i += 3) {
    int most = 0;
    for (std::size_t c = i; c < i + 3; ++c) {
      const int difference = std::abs(static_cast<int>(frame[c]) - static_cast<int>(first[c]));
      sum += static_cast<std::uint64_t>(difference);
      most = std::max(most, difference);
    }
    if (most > kEvenLevels) ++changed;
  }
  report.change = std::max(report.change, static_cast<double>(sum) / static_cast<double>(frame.size()));
  report.changed_share = std::max(report.changed_share, static_cast<double>(changed) * 3 / static_cast<double>(frame.size()));
}

void judge_pictures(int frames, GuardReport& report) {
  if (report.black_frames == frames)
    report.problems.push_back(fmt::format("all {} frames are black (mean luma {:.1f} of 255, brightest pixel {:.0f})", frames,
                                          report.mean_luma, report.max_luma));
  else if (report.flat_frames == frames)
    report.problems.push_back(
        fmt::format("all {} frames show one even colour and nothing else (mean luma {:.1f} of 255)", frames, report.mean_luma));
  else if (report.black_frames > 0 || report.flat_frames > 0)
    report.warnings.push_back(
        fmt::format("{} of {} frames are black, {} show one even colour", report.black_frames, frames, report.flat_frames));
  if (frames > 1 && report.change < kFrozenMean && report.changed_share <= kUnseenShare)
    report.problems.push_back(
        fmt::format("the picture is frozen: all {} frames equal the first (largest mean difference {:.3f} of 255)", frames, report.change));
}

// RMS of the loudest window, each window without its mean; values that are not finite count as 0.
double loudest_window_db(std::span<const float> samples, int sample_rate) {
  const auto window = std::max<std::size_t>(1, static_cast<std::size_t>(sample_rate * kSilenceWindowSeconds));
  double loudest = 0;
  for (std::size_t begin = 0; begin < samples.size(); begin += window) {
    const auto part = samples.subspan(begin, std::min(window, samples.size() - begin));
    double sum = 0, squares = 0;
    for (const float v : part) {
      const double x = std::isfinite(v) ? v : 0;
      sum += x;
      squares += x * x;
    }
    const double n = static_cast<double>(part.size());
    loudest = std::max(loudest, squares / n - sum / n * (sum / n));
  }
  return loudest > 0 ? std::max(kNoSoundDb, 10 * std::log10(loudest)) : kNoSoundDb;
}

void count_samples(std::span<const float> samples, GuardReport& report, std::int64_t& clipped) {
  for (const float v : samples) {
    if (!std::isfinite(v)) {
      ++report.not_finite;
      continue;
    }
    const double size = std::abs(static_cast<double>(v));
    report.peak = std::max(report.peak, size);
    if (size >= kClippedLevel) ++clipped;
  }
}

struct Sound {
  std::span<const float> left, right;
  int sample_rate = 0;
};

void inspect_sound(const Sound& sound, GuardReport& report) {
  std::int64_t clipped = 0;
  count_samples(sound.left, report, clipped);
  count_samples(sound.right, report, clipped);
  const auto total = static_cast<std::int64_t>(sound.left.size() + sound.right.size());
  report.clipped_share = static_cast<double>(clipped) / static_cast<double>(total);
  report.left_db = loudest_window_db(sound.left, sound.sample_rate);
  report.right_db = loudest_window_db(sound.right, sound.sample_rate);

  if (report.not_finite > 0) report.problems.push_back(fmt::format("{} of {} sound samples are not finite", report.not_finite, total));
  if (report.clipped_share > kClippedShare)
    report.problems.push_back(fmt::format("the sound is clipped: {:.1f} % of its samples are at full scale", 100 * report.clipped_share));
  const bool left = report.left_db >= kSilenceDb, right = report.right_db >= kSilenceDb;
  if (!left && !right)
    report.problems.push_back(fmt::format("the sound is silent (loudest {:.0f} ms at {:.0f} dB of full scale)",
                                          1000 * kSilenceWindowSeconds, std::max(report.left_db, report.right_db)));
  else if (!left || !right)
    report.warnings.push_back(fmt::format("the {} channel is silent", left ? "right" : "left"));
}

void check_length(const Sound& sound, const ClipExpectation& expected, std::vector<std::string>& problems) {
  if (sound.left.size() != sound.right.size())
    problems.push_back(fmt::format("the channels differ in length: {} and {} samples", sound.left.size(), sound.right.size()));
  else if (static_cast<std::int64_t>(sound.left.size()) != expected.samples)
    problems.push_back(fmt::format("the sound has {} samples instead of {}", sound.left.size(), expected.samples));
}

}  // namespace

Result<void> check_finite(std::span<const float> values, std::string_view stage, int step) {
  const auto bad = [](float v) { return !std::isfinite(v); };
  const auto first = std::find_if(values.begin(), values.end(), bad);
  if (first == values.end()) return {};
  const std::string where = step >= 0 ? fmt::format("{}, step {}", stage, step) : std::string(stage);
  return Error{ErrorCode::rejected,
               fmt::format("{}: {} of {} values are not finite (the first is {} at {})", where, std::count_if(first, values.end(), bad),
                           values.size(), *first, first - values.begin()),
               "", ""};
}

Result<void> GuardReport::verdict() const {
  if (problems.empty()) return {};
  return Error{ErrorCode::rejected, fmt::format("the output is not acceptable: {}", fmt::join(problems, "; ")), "", ""};
}

void ClipInspector::add(std::span<const std::uint8_t> rgb) {
  const std::size_t bytes = static_cast<std::size_t>(std::max(width_, 0)) * static_cast<std::size_t>(std::max(height_, 0)) * 3;
  if (rgb.empty() || rgb.size() != bytes) {
    torn_bytes_ += rgb.size();
    return;
  }
  const FrameFacts facts = look_at(rgb);
  pictures_.black_frames += facts.black ? 1 : 0;
  pictures_.flat_frames += facts.flat ? 1 : 0;
  pictures_.max_luma = std::max(pictures_.max_luma, facts.max_luma);
  luma_sum_ += facts.mean_luma;
  if (frames_++ == 0)
    first_.assign(rgb.begin(), rgb.end());
  else
    compare_with_first(first_, rgb, pictures_);
}

GuardReport ClipInspector::report(const ClipExpectation& expected, std::span<const float> left, std::span<const float> right,
                                  int sample_rate) const {
  GuardReport report = pictures_;
  const Sound sound{left, right, sample_rate};
  if (torn_bytes_ > 0 || frames_ == 0)
    report.problems.push_back(fmt::format("the clip holds {} bytes of pictures that are not frames of {}x{}, and {} frames", torn_bytes_,
                                          width_, height_, frames_));
  if (frames_ != expected.frames || width_ != expected.width || height_ != expected.height)
    report.problems.push_back(fmt::format("the clip has {} frames of {}x{} instead of {} of {}x{}", frames_, width_, height_,
                                          expected.frames, expected.width, expected.height));
  check_length(sound, expected, report.problems);
  if (frames_ > 0) {
    report.mean_luma = luma_sum_ / frames_;
    judge_pictures(frames_, report);
  }
  if (!left.empty() || !right.empty()) inspect_sound(sound, report);
  return report;
}

GuardReport inspect_clip(const Clip& clip, const ClipExpectation& expected) {
  ClipInspector inspector(clip.width, clip.height);
  if (clip.pictures_complete()) {
    for (int i = 0; i < clip.frames; ++i) inspector.add(clip.frame(i));
  } else {
    inspector.add(clip.rgb);
  }
  return inspector.report(expected, clip.left, clip.right, clip.sample_rate);
}

}  // namespace tritium
