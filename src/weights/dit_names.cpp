#include "weights/dit_names.h"

#include "base/try.h"

#include <fmt/format.h>
#include <array>

namespace tritium {
namespace {

// Official part -> diffusers part, longest first; applied to the first match.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kDiffusersParts = {{
    {"token_refiner.blocks.", "token_refiner.refiner_blocks."},
    {"blocks.", "transformer_blocks."},
    {"time_embedder.proj_in", "time_embedder.linear_1"},
    {"time_embedder.proj_out", "time_embedder.linear_2"},
    {"video_patch_proj", "proj_in"},
    {"audio_patch_proj", "audio_proj_in"},
    {"condition_proj", "context_embedder"},
    {"final_layer.norm", "norm_out.norm"},
    {"final_layer.adaln_proj.linear", "norm_out.linear"},
    {"final_layer.video_out", "proj_out"},
    {"final_layer.audio_out", "audio_proj_out"},
    // Within a block:
    {"attn.q_norm", "attn.norm_q"},
    {"attn.k_norm", "attn.norm_k"},
    {"attn.out_proj", "attn.to_out.0"},
    {"attn.q.", "attn.to_q."},
    {"attn.k.", "attn.to_k."},
    {"attn.v.", "attn.to_v."},
    {"mlp.fc1", "ff.net.0.proj"},
}};

constexpr std::string_view kQkv = "attn.qkv_proj.weight", kGateUp = "mlp.fc1.weight";

TensorPlace diffusers_place(const LogicalTensors& tensors, const std::string& official) {
  if (official.ends_with(kQkv)) {
    const std::string block = official.substr(0, official.size() - kQkv.size());
    TensorPlace place;
    for (const char* part : {"attn.q.weight", "attn.k.weight", "attn.v.weight"}) place.tensors.push_back(diffusers_dit_name(block + part));
    return place;
  }
  TensorPlace place{{diffusers_dit_name(official)}, {}};
  if (official.ends_with(kGateUp))
    if (const LogicalTensor* tensor = tensors.find(place.tensors.front()); tensor != nullptr && tensor->shape.size() == 2)
      place.order = swapped_halves(tensor->shape[0]);
  return place;
}

TensorPlace interleaved_place(const LogicalTensors& tensors, const std::string& official) {
  TensorPlace place{{official}, {}};
  if (!official.ends_with(kQkv)) return place;
  const LogicalTensor* qkv = tensors.find(official);
  const LogicalTensor* norm = tensors.find(official.substr(0, official.size() - kQkv.size()) + "attn.q_norm.weight");
  if (qkv == nullptr || norm == nullptr || qkv->shape.size() != 2 || norm->shape.size() != 1 || norm->shape[0] < 1) return place;
  const std::int64_t head_dim = norm->shape[0];
  if (qkv->shape[0] % (3 * head_dim) == 0) place.order = deinterleaved_qkv(qkv->shape[0] / (3 * head_dim), head_dim);
  return place;
}

}  // namespace

const char* layout_name(DitLayout layout) {
  switch (layout) {
    case DitLayout::interleaved:
      return "official (qkv interleaved per head)";
    case DitLayout::plain:
      return "plain (q, k, v blocks)";
    case DitLayout::diffusers:
      return "diffusers";
  }
  return "?";
}

std::string diffusers_dit_name(std::string name) {
  bool start_replaced = false;
  for (const auto& [from, to] : kDiffusersParts) {
    const std::size_t at = name.find(from);
    const bool within_block = from.starts_with("attn.") || from.starts_with("mlp.");
    if (at == std::string::npos || (at != 0 && !within_block) || (!within_block && start_replaced)) continue;
    name.replace(at, from.size(), to);
    start_replaced |= !within_block;
  }
  if (const std::size_t at = name.find("mlp.fc2"); at != std::string::npos) name.replace(at, 7, "ff.net.2");
  return name;
}

Result<DitLayout> detect_dit_layout(const LogicalTensors& tensors, bool official_config) {
  if (tensors.find("transformer_blocks.0.attn.to_q.weight") != nullptr) return DitLayout::diffusers;
  const LogicalTensor* qkv = tensors.find("blocks.0.attn.qkv_proj.weight");
  if (qkv == nullptr)
    return Error{
        ErrorCode::model,
        "this is not an H3 diffusion transformer: no tensor 'blocks.0.attn.qkv_proj.weight' or 'transformer_blocks.0.attn.to_q.weight'", "",
        ""};
  // bitsandbytes files of the full model were made from the official shards, those of the pruned one from the plain repack.
  if (qkv->quant && qkv->quant->format == QuantFormat::nf4)
    return tensors.find("adaln_t_table") == nullptr ? DitLayout::interleaved : DitLayout::plain;
  return tensors.checkpoint().sharded() && official_config ? DitLayout::interleaved : DitLayout::plain;
}

Naming dit_naming(const LogicalTensors& tensors, DitLayout layout) {
  // The place of a matrix depends on shapes alone, which are few: they are looked up when asked for.
  switch (layout) {
    case DitLayout::diffusers: {
      auto copy = std::make_shared<const LogicalTensors>(tensors);
      return [copy](const std::string& official) { return diffusers_place(*copy, official); };
    }
    case DitLayout::interleaved: {
      auto copy = std::make_shared<const LogicalTensors>(tensors);
      return [copy](const std::string& official) { return interleaved_place(*copy, official); };
    }
    case DitLayout::plain:
      break;
  }
  return same_name;
}

Result<DitPart> open_dit(std::shared_ptr<const Checkpoint> checkpoint, bool official_config) {
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  DitPart out;
  TRITIUM_TRY_ASSIGN(out.layout, detect_dit_layout(tensors, official_config));
  Naming naming = dit_naming(tensors, out.layout);
  out.part = WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
  return out;
}

}  // namespace tritium
