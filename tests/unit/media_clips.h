// Clips and helpers shared by the tests of src/media and src/pipeline/guard.
#pragma once

#include "media/clip.h"
#include "unit/temp_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numbers>
#include <string>

namespace tritium::test {

inline std::filesystem::path operator/(const TempFolder& folder, const std::string& name) { return folder.path() / name; }

// Length of the model's sound for a number of frames: whole latents of 800 samples, 40 a second (spec/vae.md §2.1).
inline std::size_t model_samples(int frames) { return static_cast<std::size_t>(std::lround(frames / 24.0 * 40.0)) * 800; }

// A soft disc that crosses a shaded background, with a 400 Hz tone that follows it from left to right.
inline Clip moving_disc(int frames = 22, int width = 96, int height = 96, bool sound = true) {
  Clip clip;
  clip.width = width;
  clip.height = height;
  clip.frames = frames;
  clip.rgb.reserve(clip.frame_bytes() * static_cast<std::size_t>(frames));
  for (int t = 0; t < frames; ++t)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const double cx = width * (0.25 + 0.5 * t / std::max(frames - 1, 1)), cy = 0.5 * height;
        const double inside = std::clamp(0.5 - (std::hypot(x - cx, y - cy) - 0.2 * height) / 3.0, 0.0, 1.0);
        const std::array<double, 3> back = {40.0 + 60.0 * x / width, 80, 200 - 40.0 * y / height}, front = {220, 40, 40};
        for (std::size_t c = 0; c < 3; ++c)
          clip.rgb.push_back(static_cast<std::uint8_t>(std::lround(back[c] + inside * (front[c] - back[c]))));
      }
  const std::size_t samples = sound ? model_samples(frames) : 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const double along = static_cast<double>(i) / static_cast<double>(samples), angle = along * std::numbers::pi / 2;
    const double tone = 0.5 * std::sin(2 * std::numbers::pi * 400 * static_cast<double>(i) / clip.sample_rate) *
                        std::min(1.0, static_cast<double>(i) / 400);
    clip.left.push_back(static_cast<float>(tone * std::cos(angle)));
    clip.right.push_back(static_cast<float>(tone * std::sin(angle)));
  }
  return clip;
}

inline bool installed(const std::string& program) { return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0; }

// Standard output of a shell command.
inline std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 65536> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) out.append(block.data(), n);
  ::pclose(pipe);
  return out;
}

}  // namespace tritium::test
