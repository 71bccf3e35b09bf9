// The bytes of one synthetic tensor in any format: codes and scales are drawn in the format's own layout, with the statistics that encoding
// normally distributed weights would give, instead of encoding any weights.
#pragma once

#include "weights/convert/encoder.h"

#include <map>
#include <mutex>

namespace tritium {

// What the values of a tensor are like.
struct SynthValues {
  float mean = 0, deviation = 0;   // normally distributed
  std::int64_t outlier_every = 0;  // of so many neighbours one is `outlier`; 0: none. Plain types only
  float outlier = 0;
  std::vector<float> exact;  // not empty: these instead, over and over
};

struct SynthTensor {
  std::string name;                 // official
  std::vector<std::int64_t> shape;  // outermost first
  SynthValues values;
  DType natural = DType::bf16;  // its type where the format does not say
};

// Blocks of ggml's types, quantized once from normal values and then strewn over tensors. Thread safe.
class BlockPools {
 public:
  using Pool = std::vector<std::uint8_t>;
  // Errors: quantize()'s.
  Result<std::shared_ptr<const Pool>> get(DType type, float deviation);

 private:
  std::mutex mutex_;
  std::map<std::pair<DType, float>, std::shared_ptr<const Pool>> pools_;
};

class SynthFiller {
 public:
  // `spec` as for MatrixEncoder. Errors: MatrixEncoder::create's; failure for quantized values that are not centred on zero.
  static Result<SynthFiller> create(const MatrixSpec& spec, const SynthValues& values, std::uint64_t seed, BlockPools& pools);

  [[nodiscard]] const std::vector<TensorDeclaration>& outputs() const { return encoder_->outputs(); }
  // Pieces of an output begin at multiples of this many bytes.
  [[nodiscard]] std::uint64_t step(std::size_t output) const;
  // The bytes of an output from `first` on. Thread safe, and the same whatever the pieces. Errors: quantize()'s.
  Result<void> fill(std::size_t output, std::uint64_t first, std::span<std::uint8_t> out) const;

 private:
  // How the bytes of an output come about.
  struct Recipe {
    enum class Kind { normal, exact, bytes, words, blocks, constant } kind = Kind::constant;
    DType type = DType::f32;
    float mean = 0, deviation = 0;                   // normal
    std::vector<float> values;                       // exact
    std::vector<std::uint8_t> table;                 // bytes: of 256 equally likely ones; constant: all there is
    std::shared_ptr<const BlockPools::Pool> blocks;  // blocks
  };

  SynthFiller(std::unique_ptr<MatrixEncoder> encoder, SynthValues values, std::uint64_t seed)
      : encoder_(std::move(encoder)), values_(std::move(values)), seed_(seed) {}
  Result<void> plan(BlockPools& pools);
  void plan_int8();
  void plan_fp8();
  void plan_w4a8();
  void plan_nf4();
  [[nodiscard]] Recipe& recipe(std::string_view suffix);
  void constants(std::string_view suffix);
  [[nodiscard]] Recipe normal(float mean, float deviation) const;
  Result<void> fill_normal(const Recipe& recipe, const std::string& name, std::uint64_t first, std::span<std::uint8_t> out) const;
  Result<void> fill_exact(const Recipe& recipe, std::uint64_t first, std::span<std::uint8_t> out) const;
  Result<void> put_outliers(const Recipe& recipe, const std::string& name, std::uint64_t first, std::span<std::uint8_t> out) const;

  std::unique_ptr<MatrixEncoder> encoder_;
  SynthValues values_;
  std::uint64_t seed_ = 0;
  std::vector<Recipe> recipes_;  // one per output
};

}  // namespace tritium
