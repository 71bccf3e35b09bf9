// Random numbers exactly as torch draws them on a CPU, so that a seed gives the reference's noise.
// Source: spec/dit.md §11.2 (recipe checked bit for bit against torch 2.6).
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>

namespace tritium {

// One torch.Generator on the CPU. The engine uses only the low 32 bits of the seed, as torch does.
class TorchGenerator {
 public:
  // Which transcendental functions turn uniforms into normals. `simd` is what torch computes on every CPU with AVX2
  // (practically all users); `scalar` is its plain C library path. They differ by at most 2.3e-6.
  enum class Variant { simd, scalar };

  explicit TorchGenerator(std::uint64_t seed, Variant variant = Variant::simd);

  // Next raw 32-bit word of the engine.
  std::uint32_t next_word() { return static_cast<std::uint32_t>(engine_()); }
  // Uniform in [0,1) with 24 bits, as torch.rand(float32).
  float uniform();
  // Standard normal values, as torch.randn(out.size()) in float32: one call is one draw (block rules depend on the size).
  void normal(std::span<float> out);
  // As torch.randn(n, dtype=bfloat16): every operation rounded to bfloat16; values are returned widened.
  void normal_bf16(std::span<float> out);

 private:
  double next_normal_double();

  std::mt19937 engine_;
  Variant variant_;
  std::optional<double> cached_normal_;  // second value of a small draw, kept across calls as torch does
};

}  // namespace tritium
