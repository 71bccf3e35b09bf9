#include "pipeline/model_info.h"

#include "base/files.h"
#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "model", std::move(hint)}; }

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The partition's folder inside what the user named.
Result<fs::path> find_partition(const fs::path& folder) {
  if (!is_folder(folder))
    return bad(fmt::format("the model folder '{}' does not exist", folder.string()), "give the folder that holds FL2VA/ with -m DIR");
  if (is_folder(folder / "transformer")) return folder;
  if (is_folder(folder / "FL2VA" / "transformer")) return folder / "FL2VA";
  if (is_folder(folder / "Ref2VA" / "transformer")) return folder / "Ref2VA";
  return bad(fmt::format("'{}' is not a MiniMax-H3 model folder: neither transformer/ nor FL2VA/transformer/ is in it", folder.string()),
             "expected is the official layout: FL2VA/{transformer,text_encoder,tokenizer,video_vae,audio_vae}");
}

Result<json> read_json(const fs::path& path) {
  auto text = read_file(path);
  if (!text.ok()) return bad(text.error().message);
  auto parsed = json::parse(*text, nullptr, false);
  if (!parsed.is_object()) return bad(fmt::format("'{}' is not a JSON object", path.string()));
  return parsed;
}

// model_index.json says which partition this is and which noise schedule belongs to it.
Result<void> read_index(const fs::path& root, ModelInfo& info) {
  const fs::path path = root / "model_index.json";
  std::string partition = root.filename() == "Ref2VA" ? "ref2va" : root.filename() == "FL2VA" ? "fl2va" : "";
  if (is_there(path)) {
    TRITIUM_TRY_ASSIGN(const json index, read_json(path));
    try {
      if (const auto own = index.find("_minimax_h3"); own != index.end()) {
        partition = own->value("partition", partition);
        const json shifts = own->value("sigma_shift_scales", json::object());
        info.defaults.video_shift = shifts.value("video", info.defaults.video_shift);
        info.defaults.audio_shift = shifts.value("audio", info.defaults.audio_shift);
      }
    } catch (const json::exception& e) { return bad(fmt::format("'{}': {}", path.string(), e.what())); }
  }
  if (partition != "fl2va" && partition != "ref2va")
    return bad(fmt::format("cannot tell whether '{}' is the FL2VA or the Ref2VA model", root.string()),
               "name the folder FL2VA or Ref2VA, or add model_index.json");
  info.partition = partition == "fl2va" ? Partition::fl2va : Partition::ref2va;
  return {};
}

// tritium.json: {"name", "defaults": {"width","height","frames","steps"}, "trained": {"width","height","frames": [min,max]}}
Result<void> read_defaults(const fs::path& root, ModelInfo& info) {
  const fs::path path = root / "tritium.json";
  if (!is_there(path)) return {};
  TRITIUM_TRY_ASSIGN(const json document, read_json(path));
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

Result<std::shared_ptr<const Checkpoint>> open_part(const fs::path& folder, const char* part) {
  if (!is_folder(folder)) return bad(fmt::format("the {} is missing: no folder '{}'", part, folder.string()));
  auto opened = Checkpoint::open(folder);
  if (!opened.ok())
    return Error{ErrorCode::model, fmt::format("{}: {}", part, opened.error().message), opened.error().field, opened.error().hint};
  return std::make_shared<const Checkpoint>(std::move(*opened));
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

Result<ModelInfo> open_model(const fs::path& folder) {
  ModelInfo info;
  TRITIUM_TRY_ASSIGN(info.root, find_partition(folder));
  info.name = fs::weakly_canonical(info.root).parent_path().filename().string() + "/" + info.root.filename().string();
  TRITIUM_TRY(read_index(info.root, info));
  TRITIUM_TRY(read_defaults(info.root, info));
  TRITIUM_TRY_ASSIGN(info.text, open_part(info.root / "text_encoder", "text encoder"));
  TRITIUM_TRY_ASSIGN(info.dit, open_part(info.root / "transformer", "diffusion transformer"));
  TRITIUM_TRY_ASSIGN(info.video_vae, open_part(info.root / "video_vae" / "source", "video VAE"));
  TRITIUM_TRY_ASSIGN(info.audio_vae, open_part(info.root / "audio_vae", "audio VAE"));

  const auto text_of = [&](const char* relative) -> Result<std::string> {
    auto text = read_file(info.root / relative);
    if (!text.ok()) return bad(text.error().message, "every part of the model needs its configuration: download it again");
    return text;
  };
  TRITIUM_TRY_ASSIGN(const std::string text_json, text_of("text_encoder/config.json"));
  TRITIUM_TRY_ASSIGN(info.text_config, parse_text_config(text_json));
  const fs::path dit_json_path = info.root / "transformer" / "config.json";
  std::string dit_json;
  if (is_there(dit_json_path)) { TRITIUM_TRY_ASSIGN(dit_json, text_of("transformer/config.json")); }
  TRITIUM_TRY_ASSIGN(info.dit_layout, detect_dit_layout(*info.dit, !dit_json.empty()));
  TRITIUM_TRY_ASSIGN(info.dit_config, read_dit_config(*info.dit, info.dit_layout, dit_json));
  TRITIUM_TRY_ASSIGN(const std::string vae_json, text_of("video_vae/config.json"));
  TRITIUM_TRY_ASSIGN(const std::string vae_source_json, text_of("video_vae/source/config.json"));
  TRITIUM_TRY_ASSIGN(info.video_vae_config, video_vae::VideoVaeConfig::parse(vae_json, vae_source_json));
  auto audio_config = audio_vae::AudioVaeConfig::read(info.root / "audio_vae");
  if (!audio_config.ok())
    return Error{ErrorCode::model, audio_config.error().message, audio_config.error().field, audio_config.error().hint};
  info.audio_vae_config = std::move(*audio_config);
  TRITIUM_TRY(check_fit(info));
  return info;
}

Result<VisionSetup> read_vision_setup(const ModelInfo& model) {
  VisionSetup setup;
  TRITIUM_TRY_ASSIGN(const std::string config, read_file(model.root / "text_encoder/config.json"));
  TRITIUM_TRY_ASSIGN(setup.config, parse_vision_config(config));
  const auto limits = [&](const char* name) -> Result<ResizeLimits> {
    for (const char* folder : {"text_encoder", "processor"})
      if (const fs::path path = model.root / folder / name; is_there(path)) {
        TRITIUM_TRY_ASSIGN(const std::string text, read_file(path));
        return parse_resize_limits(text, path.string(), setup.config.patch);
      }
    return bad(fmt::format("'{}' is missing in text_encoder/ and processor/ of '{}'", name, model.root.string()));
  };
  TRITIUM_TRY_ASSIGN(setup.image, limits("preprocessor_config.json"));
  TRITIUM_TRY_ASSIGN(setup.video, limits("video_preprocessor_config.json"));
  return setup;
}

}  // namespace tritium
