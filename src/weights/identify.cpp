#include "weights/identify.h"

#include "base/files.h"
#include "base/try.h"
#include "weights/identify_parts.h"
#include "weights/names.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMetadataShown = 200;  // bytes of a value; quantization maps are far longer
constexpr std::uint64_t kConfigLimit = 4u << 20;

bool is_lora_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> kWords = {"lora_", ".lokr_", ".hada_", ".dora_scale"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

std::string container_text(const Checkpoint& checkpoint) {
  if (checkpoint.files().empty()) return "no file";
  const auto name = container_name(checkpoint.files().front().container());
  const std::size_t files = checkpoint.files().size();
  if (files == 1) return fmt::format("{}{}", name, checkpoint.sharded() ? ", 1 shard with index" : "");
  return fmt::format("{}, {} {}", name, files, checkpoint.sharded() ? "shards" : "files");
}

void read_facts(const Checkpoint& checkpoint, Identity& identity) {
  identity.container = container_text(checkpoint);
  identity.bytes = checkpoint.tensor_bytes();
  for (const TensorFile& file : checkpoint.files())
    for (const auto& [key, value] : file.header().metadata) {
      const bool whole = value.size() <= kMetadataShown;
      identity.metadata.emplace(key, whole ? value : fmt::format("{}... ({} bytes)", value.substr(0, kMetadataShown), value.size()));
    }
  identity.signature = name_shape_signature(checkpoint);
  identity.known_as = published_name(identity.signature);
}

// Layers and widths, through official names.
void read_dimensions(const WeightPart& part, Identity& identity) {
  const auto dim = [&](const char* name, std::size_t index) -> std::int64_t {
    const auto shape = part.shape(name);
    return shape && index < shape->size() ? (*shape)[index] : 0;
  };
  switch (identity.role) {
    case PartRole::dit:
      identity.pruned = part.has("adaln_t_table");
      identity.text_width = dim("condition_proj.weight", 1);
      identity.video_channels = dim("video_patch_proj.weight", 1) / 4;
      identity.audio_channels = dim("audio_patch_proj.weight", 1);
      break;
    case PartRole::text_encoder:
      identity.text_width = dim("model.language_model.embed_tokens.weight", 1);
      identity.vocabulary = dim("model.language_model.embed_tokens.weight", 0);
      break;
    case PartRole::video_vae:
      identity.video_channels = dim("post_quant_conv.weight", 1);
      break;
    case PartRole::audio_vae:
      identity.audio_channels = dim("dec_in_proj.weight", 1);
      break;
    default:
      break;
  }
}

// Heads with n times the rows they need belong to distilled models that predict several steps at once.
void find_extras(const WeightPart& part, Identity& identity) {
  if (identity.role == PartRole::dit) {
    for (const auto& [head, rows] : {std::pair("final_layer.video_out.weight", identity.video_channels * 4),
                                     {"final_layer.audio_out.weight", identity.audio_channels}})
      if (const auto shape = part.shape(head); shape && shape->size() == 2 && rows > 0 && (*shape)[0] > rows && (*shape)[0] % rows == 0) {
        identity.extras.push_back(fmt::format("head bank: '{}' has {} times the usual rows", head, (*shape)[0] / rows));
        identity.warnings.push_back("several output heads (a distilled multi-step model) are not supported");
      }
    int gates = 0;
    for (const auto& [name, tensor] : part.tensors().all()) gates += name.ends_with(".attn.to_gate_compress.weight") ? 1 : 0;
    if (gates > 0) identity.extras.push_back(fmt::format("{} gates of sparse attention (to_gate_compress), not used", gates));
  }
  if (identity.role == PartRole::text_encoder && identity.vision_layers == 0)
    identity.extras.push_back("no vision tower: prompts only, no pictures or reference videos");
}

}  // namespace

const char* role_name(PartRole role) {
  switch (role) {
    case PartRole::unknown:
      return "unknown";
    case PartRole::dit:
      return "diffusion transformer";
    case PartRole::text_encoder:
      return "text encoder";
    case PartRole::vision:
      return "vision tower alone";
    case PartRole::video_vae:
      return "video VAE";
    case PartRole::audio_vae:
      return "audio VAE";
    case PartRole::lora:
      return "LoRA";
    case PartRole::preview_vae:
      return "preview decoder";
  }
  return "?";
}

const char* role_key(PartRole role) {
  constexpr std::array<const char*, 8> kKeys = {"unknown",   "dit",       "text_encoder", "vision",
                                                "video_vae", "audio_vae", "lora",         "preview_vae"};
  return kKeys[static_cast<std::size_t>(role)];
}

bool has_official_dit_config(const fs::path& folder) {
  const auto text = read_file(folder / "config.json", kConfigLimit);
  if (!text.ok()) return false;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  return json.is_object() && json.contains("token_refiner_num_layers") && json.contains("hidden_size");
}

Result<Identity> identify(const Checkpoint& checkpoint, const fs::path& path, const FileSurroundings& surroundings) {
  Identity identity;
  read_facts(checkpoint, identity);
  const std::string file_name = fs::is_directory(path) && !checkpoint.files().empty()
                                    ? checkpoint.files().front().path().filename().string()
                                    : path.filename().string();
  const std::vector<std::string> names = checkpoint.names();
  if (const auto lora = std::find_if(names.begin(), names.end(), is_lora_name); lora != names.end()) {
    identity.role = PartRole::lora;
    identity.reason = fmt::format("tensor '{}'", *lora);
    identity.tensors = static_cast<int>(names.size());
    return identity;
  }
  TRITIUM_TRY(refuse_unsupported(checkpoint, file_name));
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(checkpoint));
  identity.tensors = static_cast<int>(tensors.all().size());
  identity.notices = tensors.notices();
  identity.role = find_role(tensors, identity.reason);
  if (identity.role == PartRole::unknown && file_name.find("taeh3") != std::string::npos) {
    identity.role = PartRole::preview_vae;
    identity.reason = "its name; no tensor of another part";
  }
  const bool is_part = identity.role == PartRole::dit || identity.role == PartRole::text_encoder || identity.role == PartRole::video_vae ||
                       identity.role == PartRole::audio_vae;
  if (is_part) {
    TRITIUM_TRY_ASSIGN(Naming naming, find_layout(tensors, surroundings, identity));
    // The checkpoint outlives this function; the part does not.
    const auto part = WeightPart::wrap(std::shared_ptr<const Checkpoint>(std::shared_ptr<void>(), &checkpoint), tensors, naming);
    read_dimensions(*part, identity);
    compare_names(tensors, naming, identity);
    find_extras(*part, identity);
  }
  if (identity.role == PartRole::dit)
    identity.partition = find_partition(fs::is_directory(path) ? checkpoint.files().front().path() : path,
                                        checkpoint.files().front().header().metadata, identity.dit_layout == DitLayout::diffusers);
  sum_formats(tensors, identity);
  compare_with_file_name(file_name, identity);
  return identity;
}

Result<void> check_stated_order(const Identity& identity, const fs::path& path) {
  if (identity.order_conflict.empty()) return {};
  return Error{ErrorCode::usage,
               fmt::format("'{}' has {} attention rows ({}), --qkv-order says {}", path.string(),
                           identity.dit_layout == DitLayout::interleaved ? "interleaved"
                           : identity.dit_layout == DitLayout::plain     ? "plain"
                                                                         : "separate",
                           identity.layout_reason, identity.order_conflict),
               "qkv-order", "leave --qkv-order out"};
}

Result<Identity> identify(const fs::path& path, std::optional<DitLayout> order) {
  TRITIUM_TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  const fs::path folder = checkpoint.files().empty() ? path.parent_path() : checkpoint.files().front().path().parent_path();
  return identify(checkpoint, path, {has_official_dit_config(folder), order});
}

}  // namespace tritium
