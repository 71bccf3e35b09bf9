#include "pipeline/model_shape.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

// Bytes in the file of the tensors of one block; 0 if it has none.
std::uint64_t block_bytes(const WeightPart& part, const std::string& prefix, std::span<const char* const> names) {
  std::uint64_t sum = 0;
  for (const char* name : names)
    if (const PlacedTensor found = part.find(prefix + name); found.found()) sum += found.bytes();
  return sum;
}

// What the alignment of a block's tensors may take in a slot.
constexpr std::uint64_t kSlotPadding = std::uint64_t{64} << 10;

// `blocks` are those of the file that make up the part together with what is left of it.
PartShape divide(const PlanInputs::Weights& whole, std::vector<std::uint64_t> blocks, std::uint64_t file_total, std::string format) {
  PartShape out;
  out.format = std::move(format);
  out.product = whole.product;
  std::uint64_t resident = 0, file = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double share = static_cast<double>(blocks[i]) / static_cast<double>(std::max<std::uint64_t>(1, file_total));
    const std::uint64_t bytes =
        i < whole.blocks.size() ? whole.blocks[i] : static_cast<std::uint64_t>(share * static_cast<double>(whole.bytes));
    out.units.push_back({bytes + kSlotPadding, blocks[i]});
    resident += bytes;
    file += blocks[i];
  }
  out.other = {whole.bytes - std::min(resident, whole.bytes), file_total - std::min(file, file_total)};
  return out;
}

const char* format_of(const PlanInputs::Weights& weights) { return precision_name(weights.precision); }

constexpr std::array<const char*, 10> kDitBlock = {
    "norm1.weight",         "norm2.weight",   "attn.q_norm.weight", "attn.k_norm.weight",       "attn.qkv_proj.weight",
    "attn.out_proj.weight", "mlp.fc1.weight", "mlp.fc2.weight",     "adaln_proj.linear.weight", "adaln_proj.linear.bias"};
constexpr std::array<const char*, 11> kTextBlock = {"input_layernorm.weight",  "post_attention_layernorm.weight",
                                                    "self_attn.q_norm.weight", "self_attn.k_norm.weight",
                                                    "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                                    "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                                                    "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                                                    "mlp.down_proj.weight"};

// A transformer needs all of its file, a text encoder only the layers that are used: embeddings are looked up in the file.
PartShape dit_shape(const ModelInfo& m, const PlanInputs::Weights& weights) {
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < m.dit_config.layers; ++i) blocks.push_back(block_bytes(*m.dit, fmt::format("blocks.{}.", i), kDitBlock));
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : m.dit->tensors().all()) total += tensor.bytes;
  return divide(weights, std::move(blocks), total, format_of(weights));
}

PartShape text_shape(const ModelInfo& m, const PlanInputs::Weights& weights) {
  const std::string prefix = "model.language_model.layers.";
  std::vector<std::uint64_t> blocks;
  std::uint64_t total = 0;
  for (int i = 0; i < m.text_config.layers; ++i) {
    blocks.push_back(block_bytes(*m.text, fmt::format("{}{}.", prefix, i), kTextBlock));
    total += blocks.back();
  }
  return divide(weights, std::move(blocks), total, format_of(weights));
}

PartShape whole_part(const PlanInputs::Weights& weights) {
  return {format_of(weights), {}, {weights.bytes, weights.bytes}, 0, weights.product};
}

}  // namespace

UnitBytes PartShape::total() const {
  UnitBytes sum = other;
  for (const UnitBytes& unit : units) sum += unit;
  return sum;
}

std::uint64_t PartShape::largest_unit() const {
  std::uint64_t largest = 0;
  for (const UnitBytes& unit : units) largest = std::max(largest, unit.resident);
  return largest;
}

ModelShape model_shape(const ModelInfo& m, const PartWeights& weights) {
  ModelShape out;
  out.name = m.name;
  out.text_config = m.text_config;
  out.dit_config = m.dit_config;
  out.video_vae_config = m.video_vae_config;
  out.audio_vae_config = m.audio_vae_config;
  out.inputs = whole_part(weights.inputs);
  out.text = text_shape(m, weights.text);
  out.dit = dit_shape(m, weights.dit);
  out.video = whole_part(weights.video);
  out.audio = whole_part(weights.audio);
  return out;
}

}  // namespace tritium
