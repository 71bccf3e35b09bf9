// Attention without a matrix of all scores, on the CPU: blocks of query rows meet blocks of keys, and the softmax is taken as they come.
//
//   y[row, head] = sum over keys of softmax(scale · q[row, head]·k[key, head'])·v[key, head'],  head' = head / (heads / kv_heads)
//
// Keys and values are brought into the order of the products first, once per head: pack(), then compute() by any number of threads.
// Each block of rows is computed by one thread in an order that depends on the shape alone: same bits for every number of threads.
#pragma once

#include "kernels/cpu/simd.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tritium::cpu {

struct AttentionFunctions;

// Elements of the products; softmax and sums are float32 in either case.
enum class AttentionType {
  f32,
  bf16,  // queries, keys, values and softmax weights rounded to bfloat16; the weights are normalised as rounded
};

// Whether the instruction set has products of this type.
bool attention_available(Isa isa, AttentionType type);

class Attention {
 public:
  struct Shape {
    std::int64_t head_dim = 0, heads = 0, kv_heads = 0, rows = 0, keys = 0;
    float scale = 1;      // > 0
    bool causal = false;  // row i sees keys 0..i
  };
  // float32 [rows][heads][head_dim], the features of a head adjacent, strides in elements.
  struct View {
    const float* data = nullptr;
    std::int64_t head_stride = 0, row_stride = 0;
  };

  // Precondition: attention_available(isa, type), heads a multiple of kv_heads, no size zero.
  Attention(const Shape& shape, AttentionType type, Isa isa);

  [[nodiscard]] std::size_t packed_bytes() const;
  [[nodiscard]] int pack_units() const;  // threads that have something to do, at most
  [[nodiscard]] int units() const;
  // The body of one worker. `packed`: packed_bytes().
  void pack(int thread, int threads, const View& k, const View& v, std::uint8_t* packed) const;
  // The body of one worker, after all of pack(). y: dense [rows][heads·head_dim].
  void compute(int thread, int threads, const View& q, const std::uint8_t* packed, float* y) const;

 private:
  struct Scratch;
  void compute_rows(std::int64_t head, std::int64_t first, const View& q, const std::uint8_t* packed, float* y, Scratch& scratch) const;
  void add_keys(std::int64_t first_row, std::int64_t rows, std::int64_t first_key, std::int64_t keys, const std::uint8_t* head_keys,
                Scratch& scratch) const;
  void pack_keys(const View& k, std::int64_t kv_head, std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  void pack_values(const View& v, std::int64_t kv_head, std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  [[nodiscard]] std::size_t key_bytes() const;   // of one head
  [[nodiscard]] std::size_t head_bytes() const;  // keys and values of one head

  Shape shape_;
  const AttentionFunctions* run_;
  std::int64_t element_, depth_, columns_, padded_keys_, block_rows_;
};

}  // namespace tritium::cpu
