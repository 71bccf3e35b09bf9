#include "server/comfy/model_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium::server::comfy {
namespace fs = std::filesystem;
namespace {

constexpr int kFoldersAbove = 3;
constexpr std::size_t kMostFiles = 2000;

// The folders where the engine looks for LoRAs by name.
std::vector<fs::path> lora_folders(const ServiceOptions& options) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const fs::path& start : {options.engine.model, options.engine.dit}) {
    if (start.empty()) continue;
    fs::path folder = fs::absolute(start, ignored).lexically_normal();
    if (!fs::is_directory(folder, ignored)) folder = folder.parent_path();
    for (int i = 0; i <= kFoldersAbove && folder.has_relative_path(); ++i, folder = folder.parent_path())
      if (const fs::path loras = folder / "loras";
          fs::is_directory(loras, ignored) && std::find(out.begin(), out.end(), loras) == out.end())
        out.push_back(loras);
  }
  return out;
}

std::map<std::string, fs::path> lora_files(const ServiceOptions& options) {
  std::map<std::string, fs::path> out;
  for (const fs::path& folder : lora_folders(options)) {
    std::error_code code;
    for (fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied, code), end;
         !code && each != end && out.size() < kMostFiles; each.increment(code)) {
      std::error_code ignored;
      if (each->path().extension() == ".safetensors" && each->is_regular_file(ignored))
        out.emplace(each->path().lexically_relative(folder).generic_string(), each->path());
    }
  }
  return out;
}

// The path of a part in the description of the model.
void add_part(const nlohmann::json& model, const char* part, std::vector<std::string>& names) {
  const auto pointer = nlohmann::json::json_pointer(std::string("/parts/") + part + "/path");
  if (!model.contains(pointer) || !model.at(pointer).is_string()) return;
  const fs::path path = model.at(pointer).get<std::string>();
  const std::string name = path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

std::map<std::string, std::vector<std::string>> model_names(const JobService& service) {
  std::map<std::string, std::vector<std::string>> out;
  for (const char* empty : {"checkpoints", "clip", "clip_vision", "controlnet", "embeddings", "style_models", "unet", "upscale_models"})
    out[empty] = {};
  const auto model = nlohmann::json::parse(service.model_json(), nullptr, false);
  if (model.is_object()) {
    add_part(model, "diffusion_transformer", out["diffusion_models"]);
    add_part(model, "text_encoder", out["text_encoders"]);
    add_part(model, "video_vae", out["vae"]);
    add_part(model, "audio_vae", out["vae"]);
  }
  out["loras"] = {};
  for (const auto& [name, path] : lora_files(service.options())) out["loras"].push_back(name);
  return out;
}

std::optional<fs::path> find_lora_file(const ServiceOptions& options, const std::string& name) {
  const auto files = lora_files(options);
  for (const std::string& each : {name, name + ".safetensors"})
    if (const auto found = files.find(each); found != files.end()) return found->second;
  return std::nullopt;
}

}  // namespace tritium::server::comfy
