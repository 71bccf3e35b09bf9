// Role and layout from tensor names (spec/weights.md §1.2, §7).
#include "base/try.h"
#include "weights/identify_parts.h"
#include "weights/names.h"
#include "weights/text_names.h"
#include "weights/vae_names.h"

#include <fmt/format.h>

namespace tritium {
namespace {

constexpr const char* kQkv = "blocks.0.attn.qkv_proj.weight";
constexpr const char *kOrderKey = "tritium.qkv_order", *kConvertedKey = "tritium.config";

enum class Proof { doubtful, customary, proven };

struct Order {
  DitLayout layout = DitLayout::plain;
  std::string reason;
  Proof proof = Proof::proven;
};

std::optional<DitLayout> order_from_metadata(const Checkpoint& checkpoint) {
  for (const TensorFile& file : checkpoint.files())
    if (const auto found = file.header().metadata.find(kOrderKey); found != file.header().metadata.end()) {
      if (found->second == "plain") return DitLayout::plain;
      if (found->second == "interleaved") return DitLayout::interleaved;
    }
  return std::nullopt;
}

// What the file and its surroundings tell; official and plain files have the same names, shapes and types.
Order found_order(const LogicalTensors& tensors, const FileSurroundings& surroundings) {
  if (tensors.find("transformer_blocks.0.attn.to_q.weight") != nullptr) return {DitLayout::diffusers, "separate to_q, to_k, to_v"};
  const Checkpoint& checkpoint = tensors.checkpoint();
  if (const auto stated = order_from_metadata(checkpoint)) return {*stated, fmt::format("metadata '{}'", kOrderKey)};
  const bool pruned = tensors.find("adaln_t_table") != nullptr;
  const LogicalTensor* qkv = tensors.find(kQkv);
  if (qkv != nullptr && qkv->quant && qkv->quant->format == QuantFormat::nf4)
    return pruned ? Order{DitLayout::plain, "bitsandbytes NF4 of the pruned model, made from the plain repack"}
                  : Order{DitLayout::interleaved, "bitsandbytes NF4 of the full model, made from the official shards"};
  if (pruned) return {DitLayout::plain, "pruned models exist as plain repacks only"};
  if (qkv != nullptr && qkv->quant) return {DitLayout::plain, fmt::format("{} repack", qkv->format_name())};
  if (checkpoint.files().front().container() == Container::gguf) return {DitLayout::plain, "GGUF files are made from plain repacks"};
  if (!tensors.prefix().empty()) return {DitLayout::plain, fmt::format("prefix '{}' of a repack", tensors.prefix())};
  if (checkpoint.files().front().header().metadata.contains(kConvertedKey)) return {DitLayout::plain, "made by tritium convert"};
  if (checkpoint.sharded() && surroundings.official_config) return {DitLayout::interleaved, "shards with the official config.json"};
  if (checkpoint.sharded()) return {DitLayout::interleaved, "shards, but no official config.json beside them", Proof::doubtful};
  if (surroundings.official_config) return {DitLayout::plain, "a single file, but the official config.json beside it", Proof::doubtful};
  return {DitLayout::plain, "a single file, as repacks are", Proof::customary};
}

// The user's word decides where nothing is proven. Separate matrices are plain rows to it.
Order decide_order(const LogicalTensors& tensors, const FileSurroundings& surroundings, std::string& conflict) {
  Order found = found_order(tensors, surroundings);
  if (!surroundings.order) return found;
  if (found.proof != Proof::proven) return {*surroundings.order, "as said with --qkv-order"};
  if ((*surroundings.order == DitLayout::interleaved) != (found.layout == DitLayout::interleaved))
    conflict = *surroundings.order == DitLayout::interleaved ? "interleaved" : "plain";
  return found;
}

Result<Naming> dit_layout(const LogicalTensors& tensors, const FileSurroundings& surroundings, Identity& identity) {
  const Order order = decide_order(tensors, surroundings, identity.order_conflict);
  identity.dit_layout = order.layout;
  identity.layout = layout_name(order.layout);
  if (!tensors.prefix().empty()) identity.layout += fmt::format(", prefix '{}'", tensors.prefix());
  identity.layout_reason = order.reason;
  identity.order_doubtful = order.proof == Proof::doubtful;
  if (identity.order_doubtful)
    identity.warnings.push_back("the order of the qkv rows cannot be proven: say --qkv-order interleaved or --qkv-order plain");
  return dit_naming(tensors, order.layout);
}

void text_layout(const LogicalTensors& tensors, Identity& identity) {
  if (tensors.find("blk.0.attn_q.weight") != nullptr) {
    identity.layout = "llama.cpp";
    identity.layout_reason = "names 'blk.N...'";
  } else {
    const std::string prefix = prefix_before(tensors, "embed_tokens.weight").value_or("");
    const bool official = prefix == "model.language_model.";
    identity.layout = official ? "official" : fmt::format("single-file repack, prefix '{}'", prefix);
    identity.layout_reason = "its names";
  }
}

}  // namespace

PartRole find_role(const LogicalTensors& tensors, std::string& reason) {
  const auto told_by = [&](const char* end) {
    const auto prefix = prefix_before(tensors, end);
    if (prefix) reason = fmt::format("tensor '{}{}'", *prefix, end);
    return prefix.has_value();
  };
  if (tensors.find("audio_patch_proj.weight") != nullptr && told_by("video_patch_proj.weight")) return PartRole::dit;
  if (tensors.find("context_embedder.weight") != nullptr && told_by("audio_proj_in.weight")) return PartRole::dit;
  if (told_by("layers.0.self_attn.q_proj.weight") && prefix_before(tensors, "embed_tokens.weight")) return PartRole::text_encoder;
  if (tensors.find("token_embd.weight") != nullptr && told_by("blk.0.attn_q.weight")) return PartRole::text_encoder;
  if (told_by("v.patch_embd.weight") || told_by("visual.patch_embed.proj.weight")) return PartRole::vision;
  if (told_by("decoder.register_tokens") || told_by("decoder.register_tokens.weight")) return PartRole::video_vae;
  if (told_by("decoder.transformer_blocks.0.scale1") || told_by("decoder.transformer_blocks.0.scale1.weight")) return PartRole::video_vae;
  if (told_by("dec_in_proj.weight")) return PartRole::audio_vae;
  if (told_by(kQkv)) return PartRole::dit;  // an incomplete one
  reason = tensors.all().empty() ? "it holds no tensor"
                                 : fmt::format("no tensor of a known part; the first is '{}'", tensors.all().begin()->first);
  return PartRole::unknown;
}

Result<Naming> find_layout(const LogicalTensors& tensors, const FileSurroundings& surroundings, Identity& identity) {
  switch (identity.role) {
    case PartRole::dit:
      return dit_layout(tensors, surroundings, identity);
    case PartRole::text_encoder:
      text_layout(tensors, identity);
      return text_naming(tensors);
    case PartRole::video_vae: {
      TRITIUM_TRY_ASSIGN(const VideoVaeLayout layout, detect_video_vae_layout(tensors));
      const bool diffusers = layout == VideoVaeLayout::diffusers;
      identity.layout = diffusers ? "diffusers" : "official";
      identity.layout_reason = diffusers ? "separate to_q, to_k, to_v" : "its names";
      return video_vae_naming(tensors, layout, 0);
    }
    default:
      identity.layout = prefix_before(tensors, "decoder.conv_pre.weight") ? "folded weight normalisation" : "official";
      identity.layout_reason = "its names";
      return audio_vae_naming(tensors);
  }
}

}  // namespace tritium
