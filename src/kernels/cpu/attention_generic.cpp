#include <cmath>
#include <cstdint>
#include <cstring>

namespace tritium::cpu {
namespace {

struct Four {
  static constexpr int kLanes = 4;
  static constexpr float kLowest = -127;
  float value[4];
  template <class Function>
  static Four each(Function function) {
    Four out;
    for (int i = 0; i < kLanes; ++i) out.value[i] = function(i);
    return out;
  }
  static Four load(const float* p) {
    return each([p](int i) { return p[i]; });
  }
  static void store(float* p, Four v) { std::memcpy(p, v.value, sizeof(v.value)); }
  static Four broadcast(float v) {
    return each([v](int) { return v; });
  }
  static Four multiply_add(Four a, Four b, Four c) {
    return each([&](int i) { return a.value[i] * b.value[i] + c.value[i]; });
  }
  static Four multiply(Four a, Four b) {
    return each([&](int i) { return a.value[i] * b.value[i]; });
  }
  static Four add(Four a, Four b) {
    return each([&](int i) { return a.value[i] + b.value[i]; });
  }
  static Four subtract(Four a, Four b) {
    return each([&](int i) { return a.value[i] - b.value[i]; });
  }
  static Four maximum(Four a, Four b) {
    return each([&](int i) { return a.value[i] > b.value[i] ? a.value[i] : b.value[i]; });
  }
  static Four round(Four v) {
    return each([&](int i) { return std::nearbyint(v.value[i]); });
  }
  // Not below kLowest, but perhaps not a number.
  static Four scale(Four a, Four n) {
    return each([&](int i) {
      const auto bits = n.value[i] < 128.0f ? static_cast<std::uint32_t>(static_cast<int>(n.value[i]) + 127) << 23 : 0x7F800000u;
      float power;
      std::memcpy(&power, &bits, sizeof(power));
      return a.value[i] * power;
    });
  }
  static float first(Four v) { return v.value[0]; }
  static float largest(Four v) {
    const float a = v.value[0] > v.value[1] ? v.value[0] : v.value[1], b = v.value[2] > v.value[3] ? v.value[2] : v.value[3];
    return a > b ? a : b;
  }
  static float total(Four v) { return (v.value[0] + v.value[1]) + (v.value[2] + v.value[3]); }
};

}  // namespace
}  // namespace tritium::cpu

#define TRITIUM_ATTENTION_VECTOR Four
#define TRITIUM_ATTENTION_ELEMENT Float
#include "kernels/cpu/attention_tile.h"

namespace tritium::cpu {

const AttentionFunctions kAttentionGeneric{4, 4, 2 * Four::kLanes, Float::convert, multiply<4, 2>, softmax};

}  // namespace tritium::cpu
