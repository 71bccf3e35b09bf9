#include "media/sound_collector.h"

#include "base/try.h"
#include "media/input_file.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>

namespace tritium {
namespace {

constexpr int kMinRate = 1000, kMaxRate = 768000;  // Hz

// Values `first`, `first + step`, ... of a plane, times `scale` after taking `zero` away, appended to `out`.
template <class T>
void append(std::vector<float>& out, const std::uint8_t* plane, std::size_t first, std::size_t step, std::size_t count, double zero,
            double scale) {
  const std::size_t begin = out.size();
  out.resize(begin + count);  // grows by more than it must, as a packet may hold a single sample
  for (std::size_t i = 0; i < count; ++i) {
    T value{};
    std::memcpy(&value, plane + (first + i * step) * sizeof(T), sizeof(T));
    out[begin + i] = static_cast<float>((static_cast<double>(value) - zero) * scale);
  }
}

bool append_channel(std::vector<float>& out, const AVFrame& frame, int channel, std::size_t count) {
  const auto format = static_cast<AVSampleFormat>(frame.format);
  const bool planar = av_sample_fmt_is_planar(format) != 0;
  const std::uint8_t* plane = frame.extended_data[planar ? channel : 0];
  const auto first = static_cast<std::size_t>(planar ? 0 : channel),
             step = static_cast<std::size_t>(planar ? 1 : frame.ch_layout.nb_channels);
  switch (av_get_packed_sample_fmt(format)) {
    case AV_SAMPLE_FMT_U8:
      append<std::uint8_t>(out, plane, first, step, count, 128, 0x1p-7);
      return true;
    case AV_SAMPLE_FMT_S16:
      append<std::int16_t>(out, plane, first, step, count, 0, 0x1p-15);
      return true;
    case AV_SAMPLE_FMT_S32:
      append<std::int32_t>(out, plane, first, step, count, 0, 0x1p-31);
      return true;
    case AV_SAMPLE_FMT_S64:
      append<std::int64_t>(out, plane, first, step, count, 0, 0x1p-63);
      return true;
    case AV_SAMPLE_FMT_FLT:
      append<float>(out, plane, first, step, count, 0, 1);
      return true;
    case AV_SAMPLE_FMT_DBL:
      append<double>(out, plane, first, step, count, 0, 1);
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<void> SoundCollector::start(const AVFrame& frame) {
  format_ = frame.format;
  channels_ = frame.ch_layout.nb_channels;
  if (channels_ < 1) return unreadable(path_, "its sound has no channel");
  if (frame.sample_rate < kMinRate || frame.sample_rate > kMaxRate)
    return unreadable(path_, fmt::format("its sound has {} Hz, {} to {} are taken", frame.sample_rate, kMinRate, kMaxRate));
  sound_.sample_rate = frame.sample_rate;
  limit_ = static_cast<std::size_t>(std::llround(max_seconds_ * frame.sample_rate));
  if (frame.best_effort_timestamp != AV_NOPTS_VALUE) first_timestamp_ = frame.best_effort_timestamp;
  return {};
}

Result<Want> SoundCollector::add(const AVFrame& frame) {
  if (format_ < 0) TRITIUM_TRY(start(frame));
  if (frame.format != format_ || frame.sample_rate != sound_.sample_rate || frame.ch_layout.nb_channels != channels_)
    return unreadable(path_, "its sound changes format in the middle");
  const std::size_t begin = sound_.left.size();
  const std::size_t count = std::min(static_cast<std::size_t>(std::max(frame.nb_samples, 0)), limit_ - begin);
  if (!append_channel(sound_.left, frame, 0, count) || !append_channel(sound_.right, frame, channels_ > 1 ? 1 : 0, count))
    return unreadable(path_, "its samples have a format that is not known here");
  for (std::size_t i = begin; i < sound_.left.size(); ++i)
    if (!std::isfinite(sound_.left[i]) || !std::isfinite(sound_.right[i]))
      return unreadable(path_, fmt::format("sample {} of its sound is not finite", i));
  return full() ? Want::enough : Want::more;
}

void keep_samples(StereoSound& sound, std::int64_t samples) {
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(samples, 0));
  if (kept >= sound.left.size()) return;
  sound.left.resize(kept);
  sound.right.resize(kept);
}

}  // namespace tritium
