#include "base/torch_generator.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace tritium {
namespace {

// Polynomial logarithm of the vector path: x in (0,1].
float polynomial_log(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  float e = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFu) | 0x3F000000u);  // mantissa in [0.5,1)
  if (m < 0.707106781186547524f) {
    e -= 1.0f;
    x = m + m - 1.0f;
  } else {
    x = m - 1.0f;
  }
  constexpr float p[9] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,  -1.2420140846e-1f, 1.4249322787e-1f,
                          -1.6668057665e-1f, 2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const float z = x * x;
  float y = p[0];
  for (int i = 1; i < 9; ++i) y = std::fma(y, x, p[i]);
  y *= x;
  y = std::fma(y, z, e * -2.12194440e-4f);
  y = std::fma(-z, 0.5f, y);
  return std::fma(e, 0.693359375f, x + y);
}

struct SinCos {
  float sin, cos;
};

// Polynomial sine and cosine of the vector path: x >= 0.
SinCos polynomial_sincos(float x) {
  int j = static_cast<int>(x * 1.27323954473516f);
  j = (j + 1) & ~1;
  const float k = static_cast<float>(j);
  x = std::fma(k, -0.78515625f, x);
  x = std::fma(k, -2.4187564849853515625e-4f, x);
  x = std::fma(k, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = 2.443315711809948e-5f;
  c = std::fma(c, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f);
  const float t = c * z;
  c = std::fma(t, z, -(z * 0.5f)) + 1.0f;
  float s = -1.9515295891e-4f;
  s = std::fma(s, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f);
  s = std::fma(s * z, x, x);
  const bool swap = (j & 2) != 0;
  SinCos out{swap ? c : s, swap ? s : c};
  if ((j & 4) != 0) out.sin = -out.sin;
  if (((j - 2) & 4) == 0) out.cos = -out.cos;
  return out;
}

// torch ends with "times standard deviation plus mean", which turns -0 (radius 0, half of the angles) into +0.
float plus_mean(float x) { return x + 0.0f; }

float to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
}

// Turns 16 uniforms into 16 normals in place: element j pairs with j + 8.
template <class Pair>
void transform_block(float* d, Pair pair) {
  for (int j = 0; j < 8; ++j) pair(d[j], d[j + 8]);
}

void pair_simd(float& a, float& b) {
  const float r = std::sqrt(-2.0f * polynomial_log(1.0f - a));
  const SinCos angle = polynomial_sincos(static_cast<float>(2.0 * std::numbers::pi) * b);
  a = plus_mean(r * angle.cos);
  b = plus_mean(r * angle.sin);
}

void pair_scalar(float& a, float& b) {
  const float r = std::sqrt(-2.0f * std::log(1.0f - a));
  const float theta = static_cast<float>(2.0 * std::numbers::pi * static_cast<double>(b));
  a = plus_mean(r * std::cos(theta));
  b = plus_mean(r * std::sin(theta));
}

void pair_bf16(float& a, float& b) {
  const float log_u = to_bf16(std::log(to_bf16(1.0f - a)));
  const float r = to_bf16(std::sqrt(to_bf16(-2.0f * log_u)));
  const float theta = to_bf16(static_cast<float>(2.0 * std::numbers::pi * static_cast<double>(b)));
  a = plus_mean(to_bf16(r * to_bf16(std::cos(theta))));
  b = plus_mean(to_bf16(r * to_bf16(std::sin(theta))));
}

// The block scheme shared by all large draws: fill, transform full blocks of 16, redraw the last 16 for a ragged tail.
template <class Uniform, class Pair>
void block_normal(std::span<float> out, Uniform uniform, Pair pair) {
  for (float& v : out) v = uniform();
  std::size_t i = 0;
  for (; i + 16 <= out.size(); i += 16) transform_block(out.data() + i, pair);
  if (i == out.size()) return;
  float* tail = out.data() + out.size() - 16;
  for (int j = 0; j < 16; ++j) tail[j] = uniform();
  transform_block(tail, pair);
}

constexpr std::size_t kBlockThreshold = 16;  // smaller draws use the double-precision path

}  // namespace

TorchGenerator::TorchGenerator(std::uint64_t seed, Variant variant) : engine_(static_cast<std::uint32_t>(seed)), variant_(variant) {}

float TorchGenerator::uniform() { return static_cast<float>(next_word() & 0xFFFFFFu) * 0x1p-24f; }

double TorchGenerator::next_normal_double() {
  if (cached_normal_) {
    const double value = *cached_normal_;
    cached_normal_.reset();
    return value;
  }
  const auto uniform53 = [this] {
    const std::uint64_t high = next_word();
    const std::uint64_t word = (high << 32) | next_word();
    return static_cast<double>(word & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
  };
  const double u1 = uniform53();
  const double u2 = uniform53();
  const double r = std::sqrt(-2.0 * std::log1p(-u2));
  const double theta = 2.0 * std::numbers::pi * u1;
  cached_normal_ = r * std::sin(theta);
  return r * std::cos(theta);
}

void TorchGenerator::normal(std::span<float> out) {
  if (out.size() < kBlockThreshold) {
    for (float& v : out) v = plus_mean(static_cast<float>(next_normal_double()));
    return;
  }
  block_normal(
      out, [this] { return uniform(); }, variant_ == Variant::simd ? pair_simd : pair_scalar);
}

void TorchGenerator::normal_bf16(std::span<float> out) {
  if (out.size() < kBlockThreshold) {
    for (float& v : out) v = to_bf16(plus_mean(static_cast<float>(next_normal_double())));
    return;
  }
  block_normal(
      out, [this] { return static_cast<float>(next_word() & 0xFFu) / 256.0f; }, pair_bf16);
}

}  // namespace tritium
