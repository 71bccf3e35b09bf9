// The tensors a complete part has (spec/weights.md §1; spec/text.md §6; spec/vae.md §1.10, §2.7), compared with those of a file.
#include "weights/identify_parts.h"

#include <fmt/format.h>
#include <array>
#include <set>

namespace tritium {
namespace {

constexpr int kMaxBlocks = 512;
constexpr std::size_t kNamesShown = 20;
constexpr int kTextLayersNeeded = 50;

using Names = std::vector<std::string>;

const Names kDitBlock = {"attn.qkv_proj.weight", "attn.out_proj.weight", "attn.q_norm.weight", "attn.k_norm.weight",
                         "mlp.fc1.weight",       "mlp.fc2.weight",       "norm1.weight",       "norm2.weight"};
const Names kAdaln = {"adaln_proj.linear.weight", "adaln_proj.linear.bias"};
const Names kTextLayer = {"input_layernorm.weight",  "post_attention_layernorm.weight",
                          "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                          "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                          "self_attn.q_norm.weight", "self_attn.k_norm.weight",
                          "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                          "mlp.down_proj.weight"};
const Names kVaeBlock = {"norm1.weight", "norm2.weight", "scale1", "scale2"};

// `modules` with ".weight" and ".bias".
Names linears(const Names& modules) {
  Names out;
  for (const std::string& module : modules) out.insert(out.end(), {module + ".weight", module + ".bias"});
  return out;
}

// Official names on one side, the file's tensors on the other.
class Comparison {
 public:
  Comparison(const LogicalTensors& tensors, const Naming& naming) : tensors_(tensors), naming_(naming) {}

  bool has(const std::string& official) const {
    for (const std::string& name : naming_(official).tensors)
      if (tensors_.find(name) == nullptr) return false;
    return true;
  }
  void claim(const std::string& official) {
    for (const std::string& name : naming_(official).tensors) claimed_.insert(name);
  }
  void need(const std::string& official) {
    claim(official);
    if (!has(official)) missing_.push_back(official);
  }
  void need(const std::string& prefix, const Names& names) {
    for (const std::string& name : names) need(prefix + name);
  }
  void may_have(const std::string& prefix, const Names& names) {
    for (const std::string& name : names) claim(prefix + name);
  }
  void claim_containing(std::initializer_list<std::string_view> words) {
    for (const auto& [name, tensor] : tensors_.all())
      for (const std::string_view word : words)
        if (name.find(word) != std::string::npos) claimed_.insert(name);
  }

  // Blocks `prefix`0, `prefix`1, ... up to the last one that has any piece; every piece of each must be there, up to `limit` blocks.
  int need_blocks(const std::string& prefix, const Names& pieces, int limit = kMaxBlocks) {
    int count = 0;
    for (int i = 0; i < kMaxBlocks; ++i)
      for (const std::string& piece : pieces)
        if (has(fmt::format("{}{}.{}", prefix, i, piece))) {
          count = i + 1;
          break;
        }
    for (int i = 0; i < count; ++i) {
      const std::string block = fmt::format("{}{}.", prefix, i);
      if (i >= limit)
        may_have(block, pieces);
      else if (!any(block, pieces))
        whole_block_missing(block, pieces);
      else
        need(block, pieces);
    }
    return count;
  }

  void finish(Identity& identity) const {
    identity.missing = shortened(missing_);
    Names unexpected;
    for (const auto& [name, tensor] : tensors_.all())
      if (!claimed_.contains(name)) unexpected.push_back(name);
    identity.unexpected = shortened(unexpected);
  }

 private:
  bool any(const std::string& prefix, const Names& pieces) const {
    for (const std::string& piece : pieces)
      if (has(prefix + piece)) return true;
    return false;
  }
  void whole_block_missing(const std::string& block, const Names& pieces) {
    missing_.push_back(block + "*");
    may_have(block, pieces);
  }
  static Names shortened(Names names) {
    if (names.size() <= kNamesShown) return names;
    const std::string rest = fmt::format("and {} more", names.size() - kNamesShown);
    names.resize(kNamesShown);
    names.push_back(rest);
    return names;
  }

  const LogicalTensors& tensors_;
  const Naming& naming_;
  Names missing_;
  std::set<std::string> claimed_;
};

void compare_dit(Comparison& compare, Identity& identity) {
  Names block = kDitBlock;
  block.insert(block.end(), kAdaln.begin(), kAdaln.end());
  identity.layers = compare.need_blocks("blocks.", block);
  identity.refiner_layers = compare.need_blocks("token_refiner.blocks.", kDitBlock);
  compare.need("", linears({"video_patch_proj", "audio_patch_proj", "condition_proj", "final_layer.adaln_proj.linear",
                            "final_layer.video_out", "final_layer.audio_out"}));
  compare.need("", {"token_refiner.final_norm.weight", "final_layer.norm.weight"});
  if (identity.pruned)
    compare.need("adaln_t_table");
  else
    compare.need("", linears({"time_embedder.proj_in", "time_embedder.proj_out"}));
  compare.claim("rope.inv_freq");
  compare.claim_containing({".to_gate_compress."});
}

void compare_text(Comparison& compare, Identity& identity) {
  compare.need("model.language_model.embed_tokens.weight");
  identity.layers = compare.need_blocks("model.language_model.layers.", kTextLayer, kTextLayersNeeded);
  compare.may_have("", {"model.language_model.norm.weight", "lm_head.weight", "rope_freqs.weight"});
  compare.claim_containing({"lm_head."});
  if (!compare.has("model.visual.patch_embed.proj.weight")) return;
  const std::string visual = "model.visual.";
  identity.vision_layers =
      compare.need_blocks(visual + "blocks.", linears({"norm1", "norm2", "attn.qkv", "attn.proj", "mlp.linear_fc1", "mlp.linear_fc2"}));
  const Names merger = linears({"norm", "linear_fc1", "linear_fc2"});
  compare.need(visual, {"patch_embed.proj.weight", "patch_embed.proj.bias", "pos_embed.weight"});
  compare.need(visual + "merger.", merger);
  compare.need_blocks(visual + "deepstack_merger_list.", merger);
}

void compare_video_vae(Comparison& compare, Identity& identity) {
  compare.need("", linears({"encoder.conv_in", "encoder.norm_out", "encoder.conv_out", "quant_conv", "post_quant_conv",
                            "decoder.x_embedder", "decoder.norm_out", "decoder.proj_out"}));
  compare.need("decoder.register_tokens");
  compare.may_have("", {"decoder.mask_token", "latents_mean", "latents_std"});
  Names block = kVaeBlock;
  for (const std::string& name : linears({"attn.to_qkv", "attn.to_out", "ff.w1", "ff.w2"})) block.push_back(name);
  identity.layers = compare.need_blocks("decoder.transformer_blocks.", block);
  const Names residual = linears({"norm1", "norm2", "conv1", "conv2"});
  for (int level = 0; compare.has(fmt::format("encoder.down.{}.block.0.conv1.weight", level)); ++level) {
    const std::string down = fmt::format("encoder.down.{}.", level);
    const int blocks = compare.need_blocks(down + "block.", residual);
    for (int i = 0; i < blocks; ++i) compare.may_have(fmt::format("{}block.{}.", down, i), linears({"nin_shortcut"}));
    compare.may_have(down, linears({"downsample.conv"}));
  }
}

// The official file holds weights as pairs of factors, ComfyUI's as products, and most names are numbered sequences: only what every form
// has is looked for one by one.
void compare_audio_vae(Comparison& compare) {
  compare.need("", linears({"dec_in_proj", "mean_proj", "pre_block.proj", "pre_block.norm1"}));
  compare.need("pre_block.attn.qkv.weight");
  for (const char* name : {"decoder.conv_pre", "decoder.conv_post", "encoder.block.0"})
    if (const std::string base = name; !compare.has(base + ".weight")) compare.need(base, {".weight_g", ".weight_v"});
  compare.claim_containing({"encoder.", "decoder.", "pre_block.", "logs_proj.", "latents_mean", "latents_std"});
}

}  // namespace

void compare_names(const LogicalTensors& tensors, const Naming& naming, Identity& identity) {
  Comparison compare(tensors, naming);
  switch (identity.role) {
    case PartRole::dit:
      compare_dit(compare, identity);
      break;
    case PartRole::text_encoder:
      compare_text(compare, identity);
      break;
    case PartRole::video_vae:
      compare_video_vae(compare, identity);
      break;
    case PartRole::audio_vae:
      compare_audio_vae(compare);
      break;
    default:
      return;
  }
  compare.finish(identity);
}

}  // namespace tritium
