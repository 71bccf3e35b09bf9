// WAV files: stereo, little endian, exact sizes in every header.
#pragma once

#include <tritium/result.h>

#include <filesystem>
#include <span>

namespace tritium {

enum class WavSamples {
  pcm16,    // round(x * 32767), values outside -1..1 limited to it
  float32,  // as they are
};

// Both channels have the same number of samples; the file appears under its name when it is complete.
// Errors: rejected for a sample that is not finite, usage for more than 4 GiB (the format's limit), and those of AtomicFile.
Result<void> write_wav(const std::filesystem::path& path, std::span<const float> left, std::span<const float> right,
                       int sample_rate = 32000, WavSamples samples = WavSamples::pcm16);

}  // namespace tritium
