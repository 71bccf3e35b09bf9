#include "pipeline/model_config.h"

#include "base/files.h"
#include "base/try.h"
#include "pipeline/released_model.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
constexpr const char* kOwnKey = "tritium.config";

Error missing(const fs::path& path, const std::string& why) {
  return Error{ErrorCode::model, fmt::format("'{}' is missing, and {}", path.string(), why), "model",
               "every part of the model needs its configuration: download it again"};
}

const std::string* metadata(const WeightPart& part, const char* key) {
  for (const TensorFile& file : part.checkpoint().files())
    if (const auto found = file.header().metadata.find(key); found != file.header().metadata.end()) return &found->second;
  return nullptr;
}

json metadata_json(const WeightPart& part, const char* key) {
  const std::string* text = metadata(part, key);
  return text == nullptr ? json() : json::parse(*text, nullptr, false);
}

// The file's text if it is the document in question: one with any of `keys`, or a broken one, whose parser will say so. Files that stand
// side by side often have a config.json of something else among them.
Result<std::string> document(const fs::path& path, std::initializer_list<const char*> keys) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::string();
  TRITIUM_TRY_ASSIGN(std::string text, read_file(path));
  const json parsed = json::parse(text, nullptr, false);
  const auto has = [&](const char* key) { return parsed.contains(key); };
  if (parsed.is_object() && std::none_of(keys.begin(), keys.end(), has)) return std::string();
  return text;
}

std::int64_t dim(const WeightPart& part, const std::string& name, std::size_t index) {
  const auto shape = part.shape(name);
  return shape && index < shape->size() ? (*shape)[index] : 0;
}

// Statistics that ComfyUI's files hold as tensors.
Result<void> take_statistics(const WeightPart& part, json& config) {
  for (const char* name : {"latents_mean", "latents_std"})
    if (part.has(name)) { TRITIUM_TRY_ASSIGN(config[name], part.read_f32(name)); }
  return {};
}

// What a part's own metadata says of the keys the document has.
void take_known(const json& from, json& config) {
  if (!from.is_object()) return;
  for (auto& [key, value] : config.items())
    for (const std::string& name : {key, key.starts_with("vae_") ? key.substr(4) : key})
      if (from.contains(name) && from[name].type() == value.type()) value = from[name];
}

// Shapes say everything but the rotary sections, which are known for the released width of a head.
Result<std::string> text_config_from_shapes(const PartCandidate& file, const WeightPart& part) {
  const std::string layer = "model.language_model.layers.0.";
  const std::int64_t head_dim = dim(part, layer + "self_attn.q_norm.weight", 0);
  json config = json::parse(released_text_config());
  json& text = config["text_config"];
  if (head_dim != text["head_dim"])
    return missing(file.folder / "config.json", fmt::format("heads of width {} are not those of the released text encoder", head_dim));
  text["hidden_size"] = file.identity.text_width;
  text["vocab_size"] = file.identity.vocabulary;
  text["num_hidden_layers"] = file.identity.layers;
  text["num_attention_heads"] = dim(part, layer + "self_attn.q_proj.weight", 0) / head_dim;
  text["num_key_value_heads"] = dim(part, layer + "self_attn.k_proj.weight", 0) / head_dim;
  text["intermediate_size"] = dim(part, layer + "mlp.gate_proj.weight", 0);
  if (file.identity.vision_layers > 0 && file.identity.vision_layers != config["vision_config"]["depth"])
    return missing(file.folder / "config.json",
                   fmt::format("a vision tower of {} blocks is not the released one", file.identity.vision_layers));
  config["vision_config"]["out_hidden_size"] = file.identity.text_width;
  return config.dump();
}

}  // namespace

Result<std::string> dit_config_text(const PartCandidate& file, const WeightPart& part) {
  TRITIUM_TRY_ASSIGN(std::string text, document(file.folder / "config.json", {"token_refiner_num_layers", "num_refiner_layers"}));
  if (!text.empty()) return text;
  if (const std::string* own = metadata(part, kOwnKey)) return *own;
  return std::string();
}

Result<std::string> text_config_text(const PartCandidate& file, const WeightPart& part) {
  TRITIUM_TRY_ASSIGN(std::string text, document(file.folder / "config.json", {"text_config"}));
  if (!text.empty()) return text;
  if (const std::string* own = metadata(part, kOwnKey)) return *own;
  return text_config_from_shapes(file, part);
}

Result<VideoVaeTexts> video_vae_config_texts(const PartCandidate& file, const WeightPart& part) {
  VideoVaeTexts out;
  TRITIUM_TRY_ASSIGN(out.source, document(file.folder / "config.json", {"ch_mult"}));
  const bool in_source = file.folder.filename() == "source";
  const fs::path config_path = (in_source ? file.folder.parent_path() : file.folder) / "config.json";
  TRITIUM_TRY_ASSIGN(out.config, document(config_path, {"vae_clip_length"}));
  const json own = metadata_json(part, kOwnKey);
  if (own.is_object() && out.source.empty() && own.contains("source")) out.source = own["source"].dump();
  if (own.is_object() && out.config.empty() && own.contains("config")) out.config = own["config"].dump();
  if (!out.source.empty() && !out.config.empty()) return out;

  const json source = json::parse(released_video_vae_source());
  const json& vit = source["vit_decoder_kwargs"];
  const std::int64_t hidden = vit["heads"].get<std::int64_t>() * vit["dim_head"].get<std::int64_t>();
  if (dim(part, "encoder.conv_in.weight", 0) != source["ch"] || dim(part, "decoder.x_embedder.weight", 0) != hidden)
    return missing(out.source.empty() ? file.folder / "config.json" : config_path, "the shapes are not those of the released video VAE");
  if (out.source.empty()) out.source = source.dump();
  if (out.config.empty()) {
    json config = json::parse(released_video_vae_config());
    take_known(metadata_json(part, "minimax_h3_video_vae"), config);
    TRITIUM_TRY(take_statistics(part, config));
    out.config = config.dump();
  }
  return out;
}

Result<AudioVaeTexts> audio_vae_config_texts(const PartCandidate& file, const WeightPart& part) {
  AudioVaeTexts out;
  TRITIUM_TRY_ASSIGN(out.config, document(file.folder / "config.json", {"latents_mean", "decoder_rates", "latent_channels"}));
  if (!out.config.empty()) {
    TRITIUM_TRY_ASSIGN(out.metadata, document(file.folder / "metadata.json", {"metadata"}));
    return out;
  }
  if (const json own = metadata_json(part, kOwnKey); own.is_object() && own.contains("config")) {
    out.config = own["config"].dump();
    if (own.contains("metadata") && own["metadata"].is_object()) out.metadata = own["metadata"].dump();
    return out;
  }
  json config = json::parse(released_audio_vae_config());
  if (dim(part, "dec_in_proj.weight", 0) != config["latent_dim"] || dim(part, "decoder.ups.0.0.bias", 0) * 2 != config["decoder_dim"])
    return missing(file.folder / "config.json", "the shapes are not those of the released audio VAE");
  take_known(metadata_json(part, "minimax_h3_audio_vae"), config);
  TRITIUM_TRY(take_statistics(part, config));
  out.config = config.dump();
  return out;
}

}  // namespace tritium
