// Decoded sound of any sample format to stereo floats. Private to src/media.
#pragma once

#include "media/audio_input.h"
#include "media/track_decoder.h"

#include <optional>

namespace tritium {

// Mono and more than two channels as load_audio says.
class SoundCollector {
 public:
  // `path` stands in messages. Keeps the first max_seconds.
  SoundCollector(std::filesystem::path path, double max_seconds) : path_(std::move(path)), max_seconds_(max_seconds) {}

  Result<Want> add(const AVFrame& frame);

  // Timestamp of the first sample, in units of the track's time base; unknown when the file does not say or there is no sample.
  [[nodiscard]] std::optional<std::int64_t> first_timestamp() const { return first_timestamp_; }
  [[nodiscard]] bool full() const { return sound_.left.size() >= limit_; }
  [[nodiscard]] StereoSound& sound() { return sound_; }

 private:
  Result<void> start(const AVFrame& frame);
  std::filesystem::path path_;
  double max_seconds_;
  std::size_t limit_ = 0;  // samples
  int format_ = -1, channels_ = 0;
  std::optional<std::int64_t> first_timestamp_;
  StereoSound sound_;
};

// The first so many samples of both channels.
void keep_samples(StereoSound& sound, std::int64_t samples);

}  // namespace tritium
