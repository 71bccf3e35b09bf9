// Names of tensors and files for conversions.
#include "weights/convert/plan.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/try.h"
#include "weights/dit_names.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace tritium {
namespace {

constexpr std::string_view kLanguage = "model.language_model.", kVision = "model.visual.", kLayers = "model.language_model.layers.";

// The official names that a diffusers transformer holds: derived, as its own are others.
std::vector<std::string> names_of_diffusers(const WeightPart& part) {
  std::vector<std::string> out;
  const auto take = [&](const std::string& name) {
    if (part.has(name)) out.push_back(name);
  };
  for (const char* layer : {"video_patch_proj", "audio_patch_proj", "condition_proj", "time_embedder.proj_in", "time_embedder.proj_out",
                            "final_layer.norm", "final_layer.adaln_proj.linear", "final_layer.video_out", "final_layer.audio_out"})
    for (const char* end : {".weight", ".bias"}) take(std::string(layer) + end);
  take("token_refiner.final_norm.weight");
  for (const char* stack : {"blocks.", "token_refiner.blocks."})
    for (int n = 0; part.has(fmt::format("{}{}.norm1.weight", stack, n)); ++n)
      for (const char* end :
           {"norm1.weight", "norm2.weight", "attn.qkv_proj.weight", "attn.out_proj.weight", "attn.q_norm.weight", "attn.k_norm.weight",
            "mlp.fc1.weight", "mlp.fc2.weight", "adaln_proj.linear.weight", "adaln_proj.linear.bias"})
        take(fmt::format("{}{}.{}", stack, n, end));
  return out;
}

// What a file puts before the official rest, e.g. "model." for kLanguage; none if it has no such tensor.
std::optional<std::string> prefix_of(const WeightPart& part, std::string_view official, std::string_view rest) {
  const TensorPlace place = part.place(std::string(official) + std::string(rest));
  if (place.tensors.size() != 1 || part.tensors().find(place.tensors.front()) == nullptr || !place.tensors.front().ends_with(rest))
    return std::nullopt;
  return place.tensors.front().substr(0, place.tensors.front().size() - rest.size());
}

std::vector<std::string> text_names(const WeightPart& part, int layers) {
  std::vector<std::string> out;
  const auto language = prefix_of(part, kLanguage, "embed_tokens.weight"), vision = prefix_of(part, kVision, "patch_embed.proj.weight");
  for (const auto& [name, tensor] : part.tensors().all()) {
    if (vision && name.starts_with(*vision)) {
      out.push_back(std::string(kVision) + name.substr(vision->size()));
      continue;
    }
    if (!language || !name.starts_with(*language)) continue;
    const std::string official = std::string(kLanguage) + name.substr(language->size());
    if (official == "model.language_model.embed_tokens.weight") out.push_back(official);
    if (!official.starts_with(kLayers)) continue;
    int layer = -1;
    std::from_chars(official.data() + kLayers.size(), official.data() + official.size(), layer);
    if (layer >= 0 && layer < layers) out.push_back(official);
  }
  return out;
}

}  // namespace

std::vector<std::string> convertible_names(PartKind kind, const WeightPart& part, int text_layers) {
  std::vector<std::string> out;
  if (kind == PartKind::text) {
    out = text_names(part, text_layers);
  } else if (kind == PartKind::dit && part.tensors().find("transformer_blocks.0.attn.to_q.weight") != nullptr) {
    out = names_of_diffusers(part);
  } else {
    for (const auto& [name, tensor] : part.tensors().all())
      if (part.has(name)) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string comfy_name(PartKind kind, const std::string& official) {
  if (kind != PartKind::text) return official;
  if (official.starts_with(kLanguage)) return "model." + official.substr(kLanguage.size());
  if (official.starts_with(kVision)) return official.substr(std::string_view("model.").size());
  return official;
}

std::string layer_group(std::string_view target) {
  std::string out;
  bool digits = false;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool starts = i == 0 || target[i - 1] == '.';
    if (target[i] >= '0' && target[i] <= '9' && (starts || digits)) {
      if (!digits) out += 'N';
      digits = true;
    } else {
      out += target[i];
      digits = false;
    }
  }
  for (const std::string_view end : {".weight", ".bias"})
    if (out.ends_with(end) && end == ".weight") out.resize(out.size() - end.size());
  return out;
}

std::string error_text(const std::map<std::string, GroupError>& groups) {
  std::string out = "{";
  for (const auto& [name, error] : groups) {
    const auto bounded = [](double v) { return std::min(v, 9.999999e99); };
    out += fmt::format("{}{}: {{\"mean\": {:.6e}, \"max\": {:.6e}}}", out.size() > 1 ? ", " : "", nlohmann::json(name).dump(),
                       bounded(error.mean), bounded(error.largest));
  }
  return out + "}";
}

namespace {

Result<std::string> header_hash(const TensorFile& file) {
  std::uint64_t end = file.file_bytes();
  for (const auto& [name, tensor] : file.header().tensors) end = std::min(end, tensor.offset);
  std::ifstream in(file.path(), std::ios::binary);
  Sha256 hash;
  std::vector<char> chunk(1u << 20);
  for (std::uint64_t at = 0; at < end;) {
    const auto count = static_cast<std::streamsize>(std::min<std::uint64_t>(chunk.size(), end - at));
    if (!in.read(chunk.data(), count)) return Error{ErrorCode::model, fmt::format("cannot read '{}'", file.path().string()), "", ""};
    hash.update(std::span(reinterpret_cast<const std::uint8_t*>(chunk.data()), static_cast<std::size_t>(count)));
    at += static_cast<std::uint64_t>(count);
  }
  return hash.finish_hex();
}

}  // namespace

Result<std::vector<SourceFile>> identify_files(const Checkpoint& checkpoint) {
  std::vector<SourceFile> out;
  for (const TensorFile& file : checkpoint.files()) {
    struct stat info {};
    if (::stat(file.path().c_str(), &info) != 0)
      return Error{ErrorCode::model, fmt::format("cannot read '{}': {}", file.path().string(), system_message(errno)), "", ""};
    TRITIUM_TRY_ASSIGN(std::string hash, header_hash(file));
    out.push_back({std::filesystem::absolute(file.path()).string(), file.file_bytes(),
                   static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec, std::move(hash)});
  }
  return out;
}

}  // namespace tritium
