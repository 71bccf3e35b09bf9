#include "weights/text_names.h"

#include "base/try.h"
#include "weights/names.h"

#include <array>

namespace tritium {
namespace {

constexpr std::string_view kLanguage = "model.language_model.", kVision = "model.visual.", kLayers = "model.language_model.layers.";

// llama.cpp's words for the parts of a layer (spec/text.md §6). Rows keep their order: its rotary pairs are those of the original.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kLlamaParts = {{
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
}};

bool named_by_llama_cpp(const LogicalTensors& tensors) {
  return tensors.find("token_embd.weight") != nullptr && tensors.find("blk.0.attn_q.weight") != nullptr;
}

Error no_text_encoder(const LogicalTensors& tensors) {
  if (tensors.find("v.patch_embd.weight") != nullptr)
    return Error{ErrorCode::model, "this is the vision half of a text encoder as llama.cpp splits it (mmproj), which is not supported", "",
                 "use a text encoder that holds language model and vision tower, e.g. the official shards or ComfyUI's file"};
  return Error{ErrorCode::model, "this is not a Qwen3-VL text encoder: no tensor '...embed_tokens.weight'", "",
               "expected e.g. 'model.language_model.embed_tokens.weight'"};
}

}  // namespace

std::string llama_text_name(std::string_view official) {
  if (official == "model.language_model.embed_tokens.weight") return "token_embd.weight";
  if (official == "model.language_model.norm.weight") return "output_norm.weight";
  if (official == "lm_head.weight") return "output.weight";
  if (!official.starts_with(kLayers)) return std::string(official);
  const std::string_view rest = official.substr(kLayers.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return std::string(official);
  const std::string_view piece = rest.substr(dot + 1);
  for (const auto& [from, to] : kLlamaParts)
    if (piece.starts_with(from) && piece.substr(from.size()).starts_with('.'))
      return "blk." + std::string(rest.substr(0, dot + 1)) + std::string(to) + std::string(piece.substr(from.size()));
  return std::string(official);
}

Result<Naming> text_naming(const LogicalTensors& tensors) {
  if (named_by_llama_cpp(tensors))
    return Naming([](const std::string& official) -> TensorPlace { return {{llama_text_name(official)}, {}}; });
  // More than one tensor each, so that a file that lacks the first is still read and the lack named.
  auto language = prefix_before(tensors, "embed_tokens.weight"), vision = prefix_before(tensors, "visual.patch_embed.proj.weight");
  if (!language) language = prefix_before(tensors, "layers.0.input_layernorm.weight");
  if (!vision) vision = prefix_before(tensors, "visual.pos_embed.weight");
  if (!language && !vision) return no_text_encoder(tensors);
  return Naming([language, vision](const std::string& official) -> TensorPlace {
    if (language && official.starts_with(kLanguage)) return {{*language + official.substr(kLanguage.size())}, {}};
    if (vision && official.starts_with(kVision)) return {{*vision + "visual." + official.substr(kVision.size())}, {}};
    return {{official}, {}};
  });
}

Result<std::shared_ptr<const WeightPart>> open_text_encoder(std::shared_ptr<const Checkpoint> checkpoint) {
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  TRITIUM_TRY_ASSIGN(Naming naming, text_naming(tensors));
  return WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
}

}  // namespace tritium
