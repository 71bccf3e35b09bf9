#include "media/wav_writer.h"

#include "base/files.h"

#include <fmt/format.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tritium {
namespace {

constexpr int kChannels = 2;
constexpr int kPcm = 1, kFloat = 3;  // format tags of WAVE

class LittleEndian {
 public:
  void text(const char* four) { bytes_.append(four, 4); }
  void number(std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// "RIFF" size "WAVE", "fmt ", for float also "fact" (a rule for everything that is not PCM), then the head of "data".
void put_header(LittleEndian& out, std::uint32_t samples, std::uint32_t rate, bool is_float) {
  const std::uint32_t sample_bytes = is_float ? 4 : 2, data = samples * kChannels * sample_bytes;
  const std::uint32_t format_bytes = is_float ? 18 : 16, fact_bytes = is_float ? 12 : 0;
  out.text("RIFF");
  out.number(4 + 8 + format_bytes + fact_bytes + 8 + data, 4);
  out.text("WAVE");
  out.text("fmt ");
  out.number(format_bytes, 4);
  out.number(is_float ? kFloat : kPcm, 2);
  out.number(kChannels, 2);
  out.number(rate, 4);
  out.number(rate * kChannels * sample_bytes, 4);
  out.number(kChannels * sample_bytes, 2);
  out.number(8 * sample_bytes, 2);
  if (is_float) {
    out.number(0, 2);  // size of the format's extension
    out.text("fact");
    out.number(4, 4);
    out.number(samples, 4);
  }
  out.text("data");
  out.number(data, 4);
}

void put_sample(LittleEndian& out, float value, bool is_float) {
  if (is_float) return out.number(std::bit_cast<std::uint32_t>(value), 4);
  const auto rounded = static_cast<int>(std::nearbyint(std::clamp(value, -1.0f, 1.0f) * 32767.0f));
  out.number(static_cast<std::uint32_t>(rounded), 2);
}

}  // namespace

Result<void> write_wav(const std::filesystem::path& path, std::span<const float> left, std::span<const float> right, int sample_rate,
                       WavSamples samples) {
  const bool is_float = samples == WavSamples::float32;
  if (left.size() != right.size() || sample_rate <= 0)
    return Error{
        ErrorCode::failure,
        fmt::format("'{}': {} and {} samples at {} Hz are not stereo sound", path.string(), left.size(), right.size(), sample_rate), "",
        ""};
  const std::size_t limit = (std::numeric_limits<std::uint32_t>::max() - 100) / (kChannels * (is_float ? 4u : 2u));
  if (left.size() > limit)
    return Error{ErrorCode::usage, fmt::format("'{}': {} samples do not fit into a WAV file", path.string(), left.size()), "",
                 fmt::format("at most {}", limit)};
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!std::isfinite(left[i]) || !std::isfinite(right[i]))
      return Error{ErrorCode::rejected, fmt::format("'{}' is not written: sample {} is not finite", path.string(), i), "", ""};

  LittleEndian out;
  out.reserve(64 + left.size() * kChannels * (is_float ? 4 : 2));
  put_header(out, static_cast<std::uint32_t>(left.size()), static_cast<std::uint32_t>(sample_rate), is_float);
  for (std::size_t i = 0; i < left.size(); ++i) {
    put_sample(out, left[i], is_float);
    put_sample(out, right[i], is_float);
  }
  return write_file_atomically(path, out.bytes());
}

}  // namespace tritium
