#include "pipeline/synth_model.h"

#include "base/files.h"
#include "base/try.h"
#include "pipeline/convert_model.h"
#include "pipeline/released_model.h"
#include "pipeline/synth_tensors.h"
#include "weights/synth/write.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kFullVocabulary = 100'000;  // from here on the release's tokenizer is needed
constexpr std::int64_t kCurvePoints = 1025;        // spec/dit.md §3

Error usage(std::string field, std::string what, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(what), std::move(field), std::move(hint)};
}

// The transformer's config.json of the release, spec/dit.md §1.
constexpr const char* kReleasedDit = R"({"hidden_size": 5376, "num_layers": 50, "token_refiner_num_layers": 2, "num_attention_heads": 56,
 "attention_head_dim": 128, "ffn_hidden_size": 14336, "latents_dim": 24, "audio_latents_dim": 32, "patch_size": [1, 2, 2],
 "text_dim": 5120, "timestep_input_dim": 256, "time_embed_hidden_size": 5376, "time_embed_dim": 2688, "rope_inv_freq_len": 16,
 "norm_eps": 1e-05})";

struct Documents {
  ordered_json dit, text, video, source, audio;
};

Result<ordered_json> read_json(const fs::path& path) {
  TRITIUM_TRY_ASSIGN(const std::string text, read_file(path));
  ordered_json out = ordered_json::parse(text, nullptr, false);
  if (!out.is_object()) return Error{ErrorCode::model, fmt::format("'{}' is not a JSON object", path.string()), "", ""};
  return out;
}

Result<Documents> demo_documents(const fs::path& root) {
  Documents out;
  TRITIUM_TRY_ASSIGN(out.dit, read_json(root / "transformer/config.json"));
  TRITIUM_TRY_ASSIGN(out.text, read_json(root / "text_encoder/config.json"));
  TRITIUM_TRY_ASSIGN(out.video, read_json(root / "video_vae/config.json"));
  TRITIUM_TRY_ASSIGN(out.source, read_json(root / "video_vae/source/config.json"));
  TRITIUM_TRY_ASSIGN(out.audio, read_json(root / "audio_vae/config.json"));
  // metadata.json holds the rest, under the names of the constructor.
  TRITIUM_TRY_ASSIGN(const ordered_json metadata, read_json(root / "audio_vae/metadata.json"));
  const ordered_json::json_pointer place("/metadata/kwargs");
  if (metadata.contains(place))
    for (const auto& [key, value] : metadata[place].items()) out.audio[key == "vae_latent_channels" ? "latent_channels" : key] = value;
  return out;
}

Documents released_documents() {
  return {ordered_json::parse(kReleasedDit), ordered_json::parse(released_text_config()), ordered_json::parse(released_video_vae_config()),
          ordered_json::parse(released_video_vae_source()), ordered_json::parse(released_audio_vae_config())};
}

void make_tiny(Documents& d) {
  d.dit.update({{"hidden_size", 64},
                {"num_layers", 2},
                {"token_refiner_num_layers", 1},
                {"num_attention_heads", 2},
                {"attention_head_dim", 32},
                {"ffn_hidden_size", 128},
                {"rope_inv_freq_len", 4}});
  d.text["text_config"].update(
      {{"hidden_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"intermediate_size", 128}});
  d.source["vit_decoder_kwargs"].update({{"num_layers", 2}, {"heads", 2}});
}

Result<void> apply_setting(Documents& d, const std::string& key, const std::string& text) {
  const std::string field = "set";
  const std::size_t dot = key.find('.');
  const std::string part = key.substr(0, dot);
  ordered_json* document = part == "dit"      ? &d.dit
                           : part == "text"   ? &d.text
                           : part == "video"  ? &d.video
                           : part == "source" ? &d.source
                           : part == "audio"  ? &d.audio
                                              : nullptr;
  if (document == nullptr || dot == std::string::npos)
    return usage(field, fmt::format("'{}' is no key of a configuration", key), "such as dit.num_layers, text.text_config.hidden_size");
  std::string path = "/" + key.substr(dot + 1);
  std::replace(path.begin(), path.end(), '.', '/');
  ordered_json value = ordered_json::parse(text, nullptr, false);
  if (value.is_discarded()) return usage(field, fmt::format("'{}' is not JSON", text), fmt::format("{}=12", key));
  try {
    ordered_json& place = document->at(ordered_json::json_pointer(path));
    if (place.is_number() != value.is_number() || place.is_array() != value.is_array())
      return usage(field, fmt::format("{} for {}, which is {}", text, key, place.dump()));
    place = std::move(value);
  } catch (const ordered_json::exception&) { return usage(field, fmt::format("the preset's configuration has no '{}'", key)); }
  return {};
}

Result<Documents> make_documents(const SynthModelOptions& options, const fs::path& demo) {
  TRITIUM_TRY_ASSIGN(const Documents small, demo_documents(demo));
  const std::string& preset = options.preset;
  if (preset != "released" && preset != "demo" && preset != "tiny")
    return usage("preset", fmt::format("'{}' is not one of released, demo, tiny", preset));
  Documents out = preset == "released" ? released_documents() : small;
  if (preset == "tiny") make_tiny(out);
  for (const auto& [key, value] : options.set) TRITIUM_TRY(apply_setting(out, key, value));
  if (options.vocabulary != 0) out.text["text_config"]["vocab_size"] = options.vocabulary;
  const auto vocabulary = out.text["text_config"]["vocab_size"].get<std::int64_t>();
  const auto least = small.text["text_config"]["vocab_size"].get<std::int64_t>();
  if (vocabulary < least)
    return usage("vocabulary", fmt::format("{} tokens are fewer than the {} of the small tokenizer", vocabulary, least));
  if (vocabulary < kFullVocabulary)
    for (const char* id : {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"})
      out.text[id] = small.text[id];
  // What the text encoder gives is what the others take.
  out.text["vision_config"]["out_hidden_size"] = out.text["text_config"]["hidden_size"];
  out.dit["text_dim"] = out.text["text_config"]["hidden_size"];
  for (const char* stale : {"adaln_out_features", "final_adaln_out_features"}) out.dit.erase(stale);
  return out;
}

Result<DitConfig> dit_config(const ordered_json& json, std::int64_t prune_rank) {
  DitConfig c;
  for (const auto& [key, target] : {std::pair("hidden_size", &c.hidden),
                                    {"num_attention_heads", &c.heads},
                                    {"attention_head_dim", &c.head_dim},
                                    {"ffn_hidden_size", &c.ffn},
                                    {"text_dim", &c.text_dim},
                                    {"latents_dim", &c.video_features},
                                    {"audio_latents_dim", &c.audio_features},
                                    {"timestep_input_dim", &c.time_input},
                                    {"time_embed_hidden_size", &c.time_hidden},
                                    {"time_embed_dim", &c.time_dim},
                                    {"rope_inv_freq_len", &c.rope_frequencies}}) {
    *target = json.value(key, std::int64_t{0});
    if (*target < 1 || *target > (1 << 20)) return usage("set", fmt::format("dit.{} = {} is not from 1 to {}", key, *target, 1 << 20));
  }
  c.video_features *= 4;
  c.layers = json.value("num_layers", 0);
  c.refiner_layers = json.value("token_refiner_num_layers", 0);
  if (c.layers < 1 || c.layers > 4096 || c.refiner_layers < 0 || c.refiner_layers > 4096)
    return usage("set", fmt::format("{} layers and {} of the refiner are not from 1 (0) to 4096", c.layers, c.refiner_layers));
  if (prune_rank > 0) {
    c.time_dim = prune_rank;
    c.curve_points = kCurvePoints;
  }
  return c;
}

Result<SynthPart> make_part(PartKind kind, const Documents& d, const SynthModelOptions& options) {
  SynthPart out;
  out.kind = kind;
  const auto config = [&](const ordered_json& document) { out.metadata.emplace_back("tritium.config", document.dump()); };
  switch (kind) {
    case PartKind::dit: {
      TRITIUM_TRY_ASSIGN(const DitConfig c, dit_config(d.dit, options.prune_rank));
      out.tensors = synth_dit(c);
      out.pruned = c.pruned();
      config(d.dit);
      out.metadata.emplace_back("tritium.partition", "fl2va");
      break;
    }
    case PartKind::text: {
      TRITIUM_TRY_ASSIGN(const TextConfig text, parse_text_config(d.text.dump()));
      TRITIUM_TRY_ASSIGN(const VisionConfig vision, parse_vision_config(d.text.dump()));
      out.tensors = synth_text(text, vision);
      config(d.text);
      out.metadata.emplace_back("minimax_h3_te", ordered_json{{"num_hidden_layers", text.layers},
                                                              {"output", fmt::format("unnormalized_hidden_after_layer_{}", text.layers)}}
                                                     .dump());
      break;
    }
    case PartKind::video_vae: {
      TRITIUM_TRY_ASSIGN(const auto c, video_vae::VideoVaeConfig::parse(d.video.dump(), d.source.dump()));
      out.tensors = synth_video_vae(c);
      config(ordered_json{{"config", d.video}, {"source", d.source}});
      break;
    }
    case PartKind::audio_vae: {
      TRITIUM_TRY_ASSIGN(const auto c, audio_vae::AudioVaeConfig::parse(d.audio.dump()));
      out.tensors = synth_audio_vae(c);
      ordered_json document;
      document["config"] = d.audio;
      config(document);
      break;
    }
  }
  return out;
}

// Tokenizer, processors, schedule and, for models of the demonstration's size, its defaults under a name of their own.
Result<void> add_small_files(const fs::path& folder, const fs::path& demo, const Documents& d, const SynthModelOptions& options) {
  ConvertModel model;
  if (d.text["text_config"]["vocab_size"].get<std::int64_t>() < kFullVocabulary) {
    model.tokenizer = demo / "tokenizer";
    for (const char* name : {"preprocessor_config.json", "video_preprocessor_config.json"})
      model.processors.push_back(demo / "processor" / name);
  }
  model.descriptions.push_back(demo / "model_index.json");
  TRITIUM_TRY(copy_companions(model, folder));
  if (options.preset == "released") return {};
  TRITIUM_TRY_ASSIGN(ordered_json defaults, read_json(demo / "tritium.json"));
  defaults["name"] = "Synthetic";
  return write_file_atomically(folder / "tritium.json", defaults.dump(2) + "\n");
}

}  // namespace

Result<std::vector<SynthFile>> write_synthetic_model(const fs::path& folder, const SynthModelOptions& options,
                                                     const SynthProgress& progress, const CancelToken* cancel) {
  const fs::path demo = options.demo / "FL2VA";
  TRITIUM_TRY_ASSIGN(const Documents documents, make_documents(options, demo));
  const bool all = options.parts.empty();
  ConvertModel named;
  named.name = "synthetic_fl2va";
  std::vector<SynthFile> out;
  for (const PartKind kind : {PartKind::dit, PartKind::text, PartKind::video_vae, PartKind::audio_vae}) {
    if (!all && std::find(options.parts.begin(), options.parts.end(), kind) == options.parts.end()) continue;
    TRITIUM_TRY_ASSIGN(const SynthPart part, make_part(kind, documents, options));
    const bool vae = kind == PartKind::video_vae || kind == PartKind::audio_vae;
    SynthOptions how;
    how.format = vae && all ? *target_format("keep") : options.format;
    how.container = how.format.block_type() ? Container::gguf : Container::safetensors;
    how.seed = options.seed;
    how.threads = options.threads;
    how.overwrite = options.overwrite;
    how.version = TRITIUM_VERSION;
    const fs::path path = folder / comfy_path(kind, named, how.format, how.container);
    std::error_code code;
    fs::create_directories(path.parent_path(), code);
    if (code) return Error{ErrorCode::failure, fmt::format("cannot make '{}': {}", path.parent_path().string(), code.message()), "", ""};
    const auto report = [&](std::uint64_t done, std::uint64_t total) {
      if (progress) progress(kind, done, total);
    };
    TRITIUM_TRY_ASSIGN(const std::uint64_t bytes, write_synthetic_part(part, path, how, report, cancel));
    out.push_back({kind, path, bytes});
  }
  TRITIUM_TRY(add_small_files(folder, demo, documents, options));
  return out;
}

}  // namespace tritium
