#include "pipeline/model_info.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "pipeline/model_config.h"
#include "weights/text_names.h"
#include "weights/vae_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "model", std::move(hint)}; }

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<json> read_json(const fs::path& path) {
  auto text = read_file(path);
  if (!text.ok()) return bad(text.error().message);
  auto parsed = json::parse(*text, nullptr, false);
  if (!parsed.is_object()) return bad(fmt::format("'{}' is not a JSON object", path.string()));
  return parsed;
}

// model_index.json says which noise schedule belongs to the model.
Result<void> read_index(const fs::path& root, ModelInfo& info) {
  const fs::path path = root / "model_index.json";
  if (!is_there(path)) return {};
  TRITIUM_TRY_ASSIGN(const json index, read_json(path));
  try {
    if (const auto own = index.find("_minimax_h3"); own != index.end()) {
      const json shifts = own->value("sigma_shift_scales", json::object());
      info.defaults.video_shift = shifts.value("video", info.defaults.video_shift);
      info.defaults.audio_shift = shifts.value("audio", info.defaults.audio_shift);
    }
  } catch (const json::exception& e) { return bad(fmt::format("'{}': {}", path.string(), e.what())); }
  return {};
}

// tritium.json, or what a converted transformer says of itself: {"name", "defaults": {"width","height","frames","steps"}, "trained":
// {"width","height","frames": [min,max]}}
Result<void> read_defaults(const fs::path& root, ModelInfo& info) {
  fs::path path = root / "tritium.json";
  json document;
  if (is_there(path)) {
    TRITIUM_TRY_ASSIGN(document, read_json(path));
  } else {
    const auto& metadata = info.dit->checkpoint().files().front().header().metadata;
    const auto stored = metadata.find("tritium.defaults");
    if (stored == metadata.end()) return {};
    path = info.dit->where();
    document = json::parse(stored->second, nullptr, false);
    if (!document.is_object()) return bad(fmt::format("'{}': its metadata 'tritium.defaults' is not a JSON object", path.string()));
  }
  ModelDefaults& d = info.defaults;
  try {
    for (const auto& [key, value] : document.items()) {
      if (key == "name") {
        info.name = value.get<std::string>();
      } else if (key == "defaults") {
        for (const auto& [field, number] : value.items()) {
          int* target = field == "width"    ? &d.width
                        : field == "height" ? &d.height
                        : field == "frames" ? &d.frames
                        : field == "steps"  ? &d.steps
                                            : nullptr;
          if (target == nullptr) return bad(fmt::format("'{}': unknown key 'defaults.{}'", path.string(), field));
          *target = number.get<int>();
        }
      } else if (key == "trained") {
        for (const auto& [field, range] : value.items()) {
          auto* target = field == "width"    ? &d.trained_width
                         : field == "height" ? &d.trained_height
                         : field == "frames" ? &d.trained_frames
                                             : nullptr;
          if (target == nullptr) return bad(fmt::format("'{}': unknown key 'trained.{}'", path.string(), field));
          *target = range.get<std::array<int, 2>>();
        }
      } else {
        return bad(fmt::format("'{}': unknown key '{}'", path.string(), key));
      }
    }
  } catch (const json::exception& e) { return bad(fmt::format("'{}': {}", path.string(), e.what())); }
  return {};
}

Result<std::shared_ptr<const Checkpoint>> open_part(const ChosenPart& chosen) {
  auto opened = Checkpoint::open(chosen.file.path);
  if (!opened.ok())
    return Error{ErrorCode::model, fmt::format("{}: {}", role_name(chosen.file.identity.role), opened.error().message),
                 opened.error().field, opened.error().hint};
  return std::make_shared<const Checkpoint>(std::move(*opened));
}

Result<void> open_transformer(ModelInfo& info) {
  const ChosenPart& chosen = info.files.dit;
  TRITIUM_TRY_ASSIGN(auto checkpoint, open_part(chosen));
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  info.dit_layout = chosen.file.identity.dit_layout;
  Naming naming = dit_naming(tensors, info.dit_layout);
  info.dit = WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
  TRITIUM_TRY_ASSIGN(const std::string config, dit_config_text(chosen.file, *info.dit));
  TRITIUM_TRY_ASSIGN(info.dit_config, read_dit_config(*info.dit, config));
  if (!chosen.file.identity.order_doubtful) return {};
  return bad(
      fmt::format("cannot tell the order of the attention rows of '{}': {}", chosen.file.path.string(), chosen.file.identity.layout_reason),
      "say --qkv-order interleaved if it is made of the original repository's files, --qkv-order plain if it is a repack; the wrong "
      "one gives noise");
}

Result<void> open_text(ModelInfo& info) {
  TRITIUM_TRY_ASSIGN(auto checkpoint, open_part(info.files.text_encoder));
  TRITIUM_TRY_ASSIGN(info.text, open_text_encoder(std::move(checkpoint)));
  TRITIUM_TRY_ASSIGN(info.text_json, text_config_text(info.files.text_encoder.file, *info.text));
  TRITIUM_TRY_ASSIGN(info.text_config, parse_text_config(info.text_json));
  return {};
}

Result<void> open_vaes(ModelInfo& info) {
  constexpr std::int64_t kReleasedHeadDim = 64;
  TRITIUM_TRY_ASSIGN(const auto video, open_part(info.files.video_vae));
  TRITIUM_TRY_ASSIGN(info.video_vae, open_video_vae(video, kReleasedHeadDim));
  TRITIUM_TRY_ASSIGN(const VideoVaeTexts texts, video_vae_config_texts(info.files.video_vae.file, *info.video_vae));
  TRITIUM_TRY_ASSIGN(info.video_vae_config, video_vae::VideoVaeConfig::parse(texts.config, texts.source));
  if (info.video_vae_config.head_dim != kReleasedHeadDim) {
    TRITIUM_TRY_ASSIGN(info.video_vae, open_video_vae(video, info.video_vae_config.head_dim));
  }
  TRITIUM_TRY_ASSIGN(auto audio, open_part(info.files.audio_vae));
  TRITIUM_TRY_ASSIGN(info.audio_vae, open_audio_vae(std::move(audio)));
  TRITIUM_TRY_ASSIGN(const AudioVaeTexts audio_texts, audio_vae_config_texts(info.files.audio_vae.file, *info.audio_vae));
  TRITIUM_TRY_ASSIGN(info.audio_vae_config, audio_vae::AudioVaeConfig::parse(audio_texts.config, audio_texts.metadata));
  return {};
}

// The parts must speak of the same latents and text rows.
Result<void> check_fit(const ModelInfo& m) {
  const auto differ = [](const char* what, std::int64_t a, const char* a_name, std::int64_t b, const char* b_name) {
    return bad(fmt::format("parts of different models: {} is {} in the {} and {} in the {}", what, a, a_name, b, b_name));
  };
  if (m.text_config.hidden != m.dit_config.text_dim)
    return differ("the width of text rows", m.text_config.hidden, "text encoder", m.dit_config.text_dim, "diffusion transformer");
  if (m.video_vae_config.latent_channels * 4 != m.dit_config.video_features)
    return differ("the number of video channels", m.video_vae_config.latent_channels, "video VAE", m.dit_config.video_features / 4,
                  "diffusion transformer");
  if (m.audio_vae_config.latent_channels != m.dit_config.audio_features)
    return differ("the number of audio channels", m.audio_vae_config.latent_channels, "audio VAE", m.dit_config.audio_features,
                  "diffusion transformer");
  return {};
}

}  // namespace

Result<ModelInfo> open_model(const fs::path& path, const ModelSelection& selection) {
  ModelInfo info;
  TRITIUM_TRY_ASSIGN(info.files, find_model_files(path, selection, host_memory().available));
  info.root = info.files.root;
  info.partition = info.files.partition;
  const fs::path real = fs::weakly_canonical(info.root);
  info.name = info.files.dit.file.tree.empty() ? info.files.dit.file.path.stem().string()
                                               : real.parent_path().filename().string() + "/" + real.filename().string();
  TRITIUM_TRY(read_index(info.root, info));
  TRITIUM_TRY(open_text(info));
  TRITIUM_TRY(open_transformer(info));
  TRITIUM_TRY(read_defaults(info.root, info));
  TRITIUM_TRY(open_vaes(info));
  TRITIUM_TRY(check_fit(info));
  return info;
}

Result<VisionSetup> read_vision_setup(const ModelInfo& model) {
  constexpr std::int64_t kReleasedVocabulary = 151936;
  VisionSetup setup;
  TRITIUM_TRY_ASSIGN(setup.config, parse_vision_config(model.text_json));
  const fs::path &text = model.files.text_encoder.file.folder, &tokenizer = model.files.tokenizer;
  const auto limits = [&](const char* name, const char* released) -> Result<ResizeLimits> {
    for (const fs::path& folder : {text, text.parent_path() / "processor", tokenizer, tokenizer.parent_path() / "processor"})
      if (const fs::path path = folder / name; is_there(path)) {
        TRITIUM_TRY_ASSIGN(const std::string document, read_file(path));
        return parse_resize_limits(document, path.string(), setup.config.patch);
      }
    if (model.text_config.vocabulary == kReleasedVocabulary) return parse_resize_limits(released, "built-in limits", setup.config.patch);
    return bad(fmt::format("'{}' is missing in '{}' and in the processor/ folder beside it", name, text.string()));
  };
  TRITIUM_TRY_ASSIGN(setup.image, limits("preprocessor_config.json", released_image_processor()));
  TRITIUM_TRY_ASSIGN(setup.video, limits("video_preprocessor_config.json", released_video_processor()));
  return setup;
}

}  // namespace tritium
