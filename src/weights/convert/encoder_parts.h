// What the encoders share. Each format has a file of its own.
#pragma once

#include "weights/convert/encoder.h"
#include "weights/quant/row_kernels.h"

#include <cmath>
#include <cstring>

namespace tritium {

std::unique_ptr<MatrixEncoder> make_plain_encoder(const MatrixSpec& spec);
std::unique_ptr<MatrixEncoder> make_fp8_encoder(const MatrixSpec& spec);
std::unique_ptr<MatrixEncoder> make_int8_encoder(const MatrixSpec& spec);
std::unique_ptr<MatrixEncoder> make_w4a8_encoder(const MatrixSpec& spec);
std::unique_ptr<MatrixEncoder> make_nf4_encoder(const MatrixSpec& spec);

// bitsandbytes' description of a matrix, of the same length whatever the offset of its scales, a number.
std::string nf4_state_text(std::int64_t rows, std::int64_t columns, const std::string& offset);

template <class T>
std::vector<std::uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<std::uint8_t> out(values.size() * sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}
inline std::vector<std::uint8_t> bytes_of_text(std::string_view text) { return {text.begin(), text.end()}; }

inline float absolute_maximum(std::span<const float> values) {
  float out = 0;
  for (const float v : values) out = std::max(out, std::fabs(v));
  return out;
}

// clamp(rne(value), -limit, limit) for |value| < 2^22: a sum with 1.5·2^23 has a unit of 1.
inline float round_within(float value, float limit) {
  constexpr float kRounder = 12582912.0f;
  return (std::min(std::max(value, -limit), limit) + kRounder) - kRounder;
}

}  // namespace tritium
