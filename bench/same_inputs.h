// The same request for two engines: latents, prompt rows and their sizes. 2048 rows by default: 128 of text, 128 of sound (two channels of
// 64 latents), 1792 of video (28 latent frames of 16x16 cells, 8x8 patches each).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

struct SameInputs {
  static constexpr int kText = 128, kTextWidth = 5120, kAudio = 64, kAudioFeatures = 32, kCells = 16, kChannels = 24;
  int frames = 28;
  std::vector<float> text;   // [row][5120]
  std::vector<float> video;  // [channel][frame][y][x]
  std::vector<float> audio;  // [feature][channel of sound][latent]

  explicit SameInputs(int rows) : frames((rows - kText - 2 * kAudio) / (kCells * kCells / 4)) {
    fill(text, std::int64_t{kText} * kTextWidth);
    fill(video, std::int64_t{kChannels} * frames * kCells * kCells);
    fill(audio, std::int64_t{kAudioFeatures} * 2 * kAudio);
  }
  [[nodiscard]] int rows() const { return kText + 2 * kAudio + frames * kCells * kCells / 4; }

 private:
  // Standard normal: a sum of twelve uniform numbers, the same bits from every compiler.
  void fill(std::vector<float>& out, std::int64_t count) {
    out.resize(static_cast<std::size_t>(count));
    for (float& value : out) {
      std::int64_t sum = 0;
      for (int i = 0; i < 12; ++i) {
        state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
        sum += static_cast<std::int64_t>(state_ >> 40);
      }
      value = static_cast<float>(static_cast<double>(sum) / (1 << 24) - 6.0);
    }
  }
  std::uint64_t state_ = 20240229;
};
