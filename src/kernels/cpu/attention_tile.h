// The inner loops of attention; compiled once per instruction set and element type, see simd.h.
#pragma once

#include <cstdint>

namespace tritium::cpu {

inline constexpr std::int64_t kAttentionKeys = 256;  // of one block

// State of the softmax of one query row: m is the largest score so far times c = scale·log2(e), sum that of 2^(score·c - m).
struct AttentionRow {
  float m, sum;
};

struct AttentionFunctions {
  std::int64_t element;        // bytes: 4, or 2 for bfloat16
  std::int64_t rows, columns;  // of one tile
  // float32 to elements.
  void (*convert)(const float* in, std::int64_t count, void* out);
  // c[rows][columns] = (add ? c : 0) + a[rows][depth]·b: b is [depth][columns], for bfloat16 [depth/2][columns][2]. Strides in elements.
  void (*multiply)(const void* a, std::int64_t a_stride, const void* b, std::int64_t depth, float* c, std::int64_t c_stride, bool add);
  // Scores of one row and one block of keys to weights (elements); the first `valid` of `width` (a multiple of `columns`) count, the
  // others get weight 0. `values`, the row's weighted sum of values so far, follows when m grows.
  void (*softmax)(float* scores, std::int64_t valid, std::int64_t width, float c, AttentionRow* row, void* weights, float* values,
                  std::int64_t value_count);
};

extern const AttentionFunctions kAttentionGeneric, kAttentionAvx2, kAttentionAvx512, kAttentionAvx512Bf16;

}  // namespace tritium::cpu

#ifdef TRITIUM_ATTENTION_VECTOR

namespace tritium::cpu {
namespace {

// Vector: first, load, store, broadcast, multiply_add (a·b + c), multiply, add, subtract, maximum (the second where one is not a number),
// round, scale (a · 2^n, flushed to 0 below), largest, total, kLanes, kLowest (2^kLowest is 0 after scale). Element: Type, kStep (of the
// depth per step), Operand, load, broadcast, multiply_add, store (two vectors of weights, as they are rounded), convert.
using Vector = TRITIUM_ATTENTION_VECTOR;

// Elements that are float32 themselves.
struct Float {
  using Type = float;
  using Operand = Vector;
  static constexpr int kStep = 1;
  static Vector load(const float* p) { return Vector::load(p); }
  static Vector broadcast(const float* p) { return Vector::broadcast(*p); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return Vector::multiply_add(a, b, c); }
  static Vector store(float* p, Vector low, Vector high) {
    Vector::store(p, low);
    Vector::store(p + Vector::kLanes, high);
    return Vector::add(low, high);
  }
  static void convert(const float* in, std::int64_t count, void* out) { __builtin_memcpy(out, in, static_cast<std::size_t>(count) * 4); }
};

using Element = TRITIUM_ATTENTION_ELEMENT;

// 2^x by its series around the nearest integer; error 1e-8, and 2.5e-6 where the result becomes a bfloat16.
inline Vector exp2(Vector x) {
  constexpr float kTerm[] = {1.0f,           0.693147180560f, 0.240226506959f, 0.0555041086648f,
                             0.00961812911f, 0.00133335581f,  0.000154035304f, 0.0000152527338f};
  constexpr int kDegree = sizeof(Element::Type) == 2 ? 5 : 7;
  x = Vector::maximum(Vector::broadcast(Vector::kLowest), x);
  const Vector whole = Vector::round(x), part = Vector::subtract(x, whole);
  Vector sum = Vector::broadcast(kTerm[kDegree]);
  for (int i = kDegree - 1; i >= 0; --i) sum = Vector::multiply_add(sum, part, Vector::broadcast(kTerm[i]));
  return Vector::scale(sum, whole);
}

// kRows x kVectors accumulators stay in registers over the whole depth.
template <int kRows, int kVectors>
void multiply(const void* a_data, std::int64_t a_stride, const void* b_data, std::int64_t depth, float* c, std::int64_t c_stride,
              bool add) {
  constexpr int kColumns = kVectors * Vector::kLanes;
  const auto* a = static_cast<const Element::Type*>(a_data);
  const auto* b = static_cast<const Element::Type*>(b_data);
  Vector total[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) total[r][v] = Vector::broadcast(0.0f);
  for (std::int64_t k = 0; k < depth; k += Element::kStep, b += kColumns * Element::kStep) {
    Element::Operand right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = Element::load(b + v * Vector::kLanes * Element::kStep);
    for (int r = 0; r < kRows; ++r) {
      const Element::Operand left = Element::broadcast(a + r * a_stride + k);
      for (int v = 0; v < kVectors; ++v) total[r][v] = Element::multiply_add(left, right[v], total[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* place = c + r * c_stride + v * Vector::kLanes;
      Vector::store(place, add ? Vector::add(Vector::load(place), total[r][v]) : total[r][v]);
    }
}

void softmax(float* scores, std::int64_t valid, std::int64_t width, float c, AttentionRow* row, void* weight_data, float* values,
             std::int64_t value_count) {
  constexpr int kLanes = Vector::kLanes;
  auto* weights = static_cast<Element::Type*>(weight_data);
  for (std::int64_t i = valid; i < width; ++i) scores[i] = -__builtin_inff();
  Vector top0 = Vector::load(scores), top1 = Vector::load(scores + kLanes);
  for (std::int64_t i = 2 * kLanes; i < width; i += 2 * kLanes) {
    top0 = Vector::maximum(top0, Vector::load(scores + i));
    top1 = Vector::maximum(top1, Vector::load(scores + i + kLanes));
  }
  const float before = row->m, block = Vector::largest(Vector::maximum(top0, top1)) * c, m = before > block ? before : block;
  const Vector factor = Vector::broadcast(c), offset = Vector::broadcast(-m);
  Vector sum = Vector::broadcast(0.0f);
  for (std::int64_t i = 0; i < width; i += 2 * kLanes) {
    const Vector low = exp2(Vector::multiply_add(Vector::load(scores + i), factor, offset));
    const Vector high = exp2(Vector::multiply_add(Vector::load(scores + i + kLanes), factor, offset));
    sum = Vector::add(sum, Element::store(weights + i, low, high));
  }
  if (before != m) {
    const Vector shrink = exp2(Vector::broadcast(before - m));
    row->sum *= Vector::first(shrink);
    for (std::int64_t i = 0; i < value_count; i += kLanes) Vector::store(values + i, Vector::multiply(Vector::load(values + i), shrink));
  }
  row->m = m;
  row->sum += Vector::total(sum);
}

}  // namespace
}  // namespace tritium::cpu

#endif
