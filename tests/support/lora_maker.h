// One set of low-rank pairs, written in every dialect of LoRA files.
#pragma once

#include "weights/lora/target.h"

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tritium::test {

enum class LoraStyle {
  diffusers,        // transformer_blocks.0.attn.to_q.lora_A.weight
  diffusers_turbo,  // ... .lora_A.default.weight behind "transformer."
  diffsynth,        // official names, .default., interleaved
  comfy,            // diffusion_model., .alpha = rank
  bare,             // official names
  double_prefix,    // base_model.model.diffusion_model.
  mangled,          // as comfy with "qkv.proj"
  kohya,            // lora_unet_, lora_down, .alpha = rank
};
inline constexpr LoraStyle kLoraStyles[] = {LoraStyle::diffusers, LoraStyle::diffusers_turbo, LoraStyle::diffsynth, LoraStyle::comfy,
                                            LoraStyle::bare,      LoraStyle::double_prefix,   LoraStyle::mangled,   LoraStyle::kohya};
const char* style_name(LoraStyle style);

struct LoraMaker {
  std::vector<LoraTarget> targets;  // those to get a pair
  std::int64_t rank = 2;
  unsigned seed = 1;
  float size = 0.1f;  // of the values
  std::map<std::string, std::string> metadata;
  // Of narrow layers: pairs as wide as the full model's, where not 0.
  std::int64_t modulation_in = 0;

  // The tensors by name; q, k and v are independent pairs of `rank`, fused where the dialect fuses them.
  struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  using Tensors = std::map<std::string, Tensor>;
  [[nodiscard]] Tensors make(LoraStyle style) const;

  // make() as a file; ends the test run with a message when it cannot be written.
  void write(const std::filesystem::path& path, LoraStyle style) const;
  static void write(const std::filesystem::path& path, const Tensors& tensors, const std::map<std::string, std::string>& metadata = {});
};

}  // namespace tritium::test
