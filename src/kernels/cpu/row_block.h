// Operations on one row of activations at a time, in one pass over memory; compiled once per instruction set, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

// Where results go. `streamed`: past the caches, for arrays that would have left them before anyone reads them: that spares reading every
// line that is written. Other threads see streamed results after publish().
enum class Stores { cached, streamed };

struct RowFunctions {
  // y = x / sqrt(mean(x²) + eps) · weight · (1 + scale) + shift; without weight, or without scale and shift, where these are null.
  void (*modulated_norm)(const float* x, const float* weight, const float* scale, const float* shift, std::int64_t count, float eps,
                         float* y, Stores stores);
  // y = x + gate · z
  void (*gated_add)(const float* x, const float* z, const float* gate, std::int64_t count, float* y, Stores stores);
  // Of each head's n = x / sqrt(mean(x²) + eps) · weight (eps < 0: n = x; weight may be null), the first 2·pairs values rotated by angles
  // given as cos and sin: a' = a·cos - b·sin, b' = b·cos + a·sin for values i and i + pairs; the others as they are. Heads of x are
  // `stride` values apart, of y `count`.
  void (*norm_rotate)(const float* x, std::int64_t heads, std::int64_t stride, const float* weight, const float* cos, const float* sin,
                      std::int64_t pairs, std::int64_t count, float eps, float* y, Stores stores);
  void (*publish)();
  // Whether all values are finite.
  bool (*finite)(const float* x, std::int64_t count);
  // To bfloat16, rounded to nearest even; what is not a number stays so. Integers of 8 bits are exact.
  void (*to_bf16)(const float* x, std::int64_t count, std::uint16_t* y);
  void (*integers_to_bf16)(const std::int8_t* x, std::int64_t count, std::uint16_t* y);
  void (*halves_to_bf16)(const std::uint16_t* x, std::int64_t count, std::uint16_t* y);  // from IEEE float16
};

extern const RowFunctions kRowsGeneric, kRowsAvx2, kRowsAvx512;

}  // namespace tritium::cpu

#ifdef TRITIUM_ROW_FUNCTIONS

#ifdef __SSE__
#include <immintrin.h>
#endif

namespace tritium::cpu {
namespace {

constexpr int kLanes = 16;
constexpr std::int64_t kBlock = 512;  // squares that are added up in float32
using Lanes __attribute__((vector_size(kLanes * sizeof(float)))) = float;

// Of `count` values, at most kLanes.
inline void add_squares(Lanes& sum, const float* x, std::int64_t count = kLanes) {
  Lanes v = {};
  __builtin_memcpy(&v, x, static_cast<std::size_t>(count) * sizeof(float));
  sum += v * v;
}

// Sums in a fixed order that suits every width of vector.
double sum_of_squares(const float* x, std::int64_t count) {
  constexpr int kSums = 4;  // so that one addition does not wait for another
  double total = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t end = first + kBlock < count ? first + kBlock : count;
    Lanes sums[kSums] = {};
    std::int64_t i = first;
    for (; i + kSums * kLanes <= end; i += kSums * kLanes)
      for (int s = 0; s < kSums; ++s) add_squares(sums[s], x + i + s * kLanes);
    for (int s = 0; i + kLanes <= end; ++s, i += kLanes) add_squares(sums[s], x + i);
    if (i < end) add_squares(sums[kSums - 1], x + i, end - i);
    const Lanes sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float lanes[kLanes];
    __builtin_memcpy(lanes, &sum, sizeof(lanes));
    for (int width = kLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    total += static_cast<double>(lanes[0]);
  }
  return total;
}

float norm_factor(const float* x, std::int64_t count, float eps) {
  return 1.0f / __builtin_sqrtf(static_cast<float>(sum_of_squares(x, count) / static_cast<double>(count)) + eps);
}

// Alignment that streaming stores need.
#if defined(__AVX512F__)
constexpr std::int64_t kStreamValues = 16;
inline void stream(const float* from, float* to) { _mm512_stream_ps(to, _mm512_loadu_ps(from)); }
#elif defined(__AVX__)
constexpr std::int64_t kStreamValues = 8;
inline void stream(const float* from, float* to) { _mm256_stream_ps(to, _mm256_loadu_ps(from)); }
#elif defined(__SSE__)
constexpr std::int64_t kStreamValues = 4;
inline void stream(const float* from, float* to) { _mm_stream_ps(to, _mm_loadu_ps(from)); }
#else
constexpr std::int64_t kStreamValues = 1;
inline void stream(const float* from, float* to) { *to = *from; }
#endif

void publish() {
#ifdef __SSE__
  _mm_sfence();
#endif
}

constexpr std::int64_t kPiece = 64;  // values that are computed before they are streamed

bool can_stream(const float* y, std::int64_t count, Stores stores) {
  return stores == Stores::streamed && count % kPiece == 0 && reinterpret_cast<std::uintptr_t>(y) % (kStreamValues * sizeof(float)) == 0;
}

template <std::int64_t Value>
struct Count {
  constexpr operator std::int64_t() const { return Value; }  // NOLINT(*-explicit-*): stands for a number
};

// Has `make(first, count, out)` compute values from `first` on: the whole row at once, or pieces that are streamed.
template <class Make>
void write_row(std::int64_t count, float* __restrict y, Stores stores, Make make) {
  if (!can_stream(y, count, stores)) return make(std::int64_t{0}, count, y);
  alignas(64) float piece[kPiece];
  for (std::int64_t first = 0; first < count; first += kPiece) {
    make(first, Count<kPiece>(), piece);
    for (std::int64_t i = 0; i < kPiece; i += kStreamValues) stream(piece + i, y + first + i);
  }
}

void modulated_norm(const float* __restrict x, const float* __restrict weight, const float* __restrict scale, const float* __restrict shift,
                    std::int64_t count, float eps, float* y, Stores stores) {
  const float factor = norm_factor(x, count, eps);
  const auto write = [&](auto normed) {
    write_row(count, y, stores, [=](std::int64_t first, auto size, float* __restrict out) {
      if (stores == Stores::streamed)  // the next row comes while this one is written
        for (std::int64_t i = 0; i < size; i += 16) __builtin_prefetch(x + first + i + count);
      for (std::int64_t i = 0; i < size; ++i) out[i] = normed(first + i);
    });
  };
  const auto modulated = [=](float n, std::int64_t i) { return n + n * scale[i] + shift[i]; };
  if (scale != nullptr && weight != nullptr)
    write([=](std::int64_t i) { return modulated(x[i] * factor * weight[i], i); });
  else if (scale != nullptr)
    write([=](std::int64_t i) { return modulated(x[i] * factor, i); });
  else if (weight != nullptr)
    write([=](std::int64_t i) { return x[i] * factor * weight[i]; });
  else
    write([=](std::int64_t i) { return x[i] * factor; });
}

void gated_add(const float* __restrict x, const float* __restrict z, const float* __restrict gate, std::int64_t count, float* y,
               Stores stores) {
  write_row(count, y, stores, [=](std::int64_t first, auto size, float* __restrict out) {
    for (std::int64_t i = 0; i < size; ++i) out[i] = x[first + i] + gate[first + i] * z[first + i];
  });
}

template <class Size>
void norm_rotate_head(const float* __restrict x, const float* __restrict weight, const float* __restrict cos, const float* __restrict sin,
                      std::int64_t pairs, Size count, float eps, float* __restrict y) {
  const float factor = eps < 0 ? 1.0f : norm_factor(x, count, eps);
  if (weight != nullptr)
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * weight[i];
  else
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * factor;
  float* __restrict second = y + pairs;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = y[i], b = second[i];
    y[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

template <class Size>
void norm_rotate_heads(const float* x, std::int64_t heads, std::int64_t stride, const float* weight, const float* cos, const float* sin,
                       std::int64_t pairs, Size count, float eps, float* y, Stores stores) {
  const bool streamed = can_stream(y, count, stores) && count <= kBlock;
  alignas(64) float piece[kBlock];
  for (std::int64_t head = 0; head < heads; ++head, x += stride, y += count) {
    norm_rotate_head(x, weight, cos, sin, pairs, count, eps, streamed ? piece : y);
    if (streamed)
      for (std::int64_t i = 0; i < count; i += kStreamValues) stream(piece + i, y + i);
  }
}

// Heads of the released models have 128 values, or 64 in the video decoder.
void norm_rotate(const float* x, std::int64_t heads, std::int64_t stride, const float* weight, const float* cos, const float* sin,
                 std::int64_t pairs, std::int64_t count, float eps, float* y, Stores stores) {
  const auto run = [&](auto size) { norm_rotate_heads(x, heads, stride, weight, cos, sin, pairs, size, eps, y, stores); };
  if (count == 128)
    run(Count<128>());
  else if (count == 64)
    run(Count<64>());
  else
    run(count);
}

bool finite(const float* x, std::int64_t count) {
  // Not finite are the values whose exponent has all bits.
  unsigned largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    unsigned bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7FFFFFFFu;
    largest = bits > largest ? bits : largest;
  }
  return largest < 0x7F800000u;
}

inline unsigned bits_of(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline std::uint16_t rounded_to_bf16(float value) {
  const unsigned bits = bits_of(value), rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16, kept = bits >> 16 | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? kept : rounded);
}

void to_bf16(const float* __restrict x, std::int64_t count, std::uint16_t* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = rounded_to_bf16(x[i]);
}

void integers_to_bf16(const std::int8_t* __restrict x, std::int64_t count, std::uint16_t* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<std::uint16_t>(bits_of(static_cast<float>(x[i])) >> 16);
}

void halves_to_bf16(const std::uint16_t* __restrict x, std::int64_t count, std::uint16_t* __restrict y) {
  for (std::int64_t i = 0; i < count; ++i) {
    // The exponent moves by 112 in a product, which also brings subnormal numbers right; infinite stays infinite.
    const unsigned half = x[i], special = (half & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u, widened = (half & 0x7FFFu) << 13 | special;
    float value;
    __builtin_memcpy(&value, &widened, sizeof(value));
    y[i] = static_cast<std::uint16_t>(rounded_to_bf16(special != 0 ? value : value * 0x1p112f) | (half & 0x8000u));
  }
}

}  // namespace

const RowFunctions TRITIUM_ROW_FUNCTIONS{modulated_norm, gated_add, norm_rotate,      publish,
                                         finite,         to_bf16,   integers_to_bf16, halves_to_bf16};

}  // namespace tritium::cpu

#endif
