// What a weight file is, told from its headers and markers alone: no weight is read (spec/weights.md §1, §2.4, §3, §7).
#pragma once

#include "weights/dit_names.h"
#include "weights/partition.h"

#include <map>

namespace tritium {

enum class PartRole { unknown, dit, text_encoder, vision, video_vae, audio_vae, lora, preview_vae };
const char* role_name(PartRole role);  // "diffusion transformer", "text encoder", ...
const char* role_key(PartRole role);   // "dit", "text_encoder", ...

// Matrices of one kind that are stored in one way.
struct FormatShare {
  std::string group;   // "attention", "mlp", "adaln", "refiner", "embeddings", "vision", "encoder", "rest"
  std::string format;  // "BF16", "int8 convrot 256", "Q4_K", ...
  int tensors = 0;
  std::uint64_t bytes = 0;  // in the file, with scales and tables
};

struct Identity {
  PartRole role = PartRole::unknown;
  std::string reason;                 // how the role was found, or why it is unknown
  std::string container;              // "safetensors", "GGUF, 3 files"
  std::string layout, layout_reason;  // naming and row order, and how that was decided
  DitLayout dit_layout = DitLayout::plain;
  bool order_doubtful = false;  // of a transformer: the order of the qkv rows cannot be proven
  std::string order_conflict;   // what the user says about that order although the file proves another; else empty
  bool pruned = false;          // of a transformer: the curve table instead of the time embedder
  int layers = 0, refiner_layers = 0, vision_layers = 0;
  // What the parts of one model have in common; 0 where a part says nothing about it.
  std::int64_t text_width = 0, video_channels = 0, audio_channels = 0, vocabulary = 0;
  int tensors = 0;          // logical ones: a matrix with its scales is one
  std::uint64_t bytes = 0;  // of all tensors in the file
  std::vector<FormatShare> formats;
  std::string main_format;      // that of most bytes
  PartitionEvidence partition;  // of a transformer
  std::vector<std::string> extras, missing, unexpected, warnings, notices;
  std::string signature;  // spec/weights.md §2.4
  std::string known_as;   // the published file with this signature; empty: none
  std::map<std::string, std::string, std::less<>> metadata;
};

// Facts that are not in the file.
struct FileSurroundings {
  bool official_config = false;    // a config.json of the original repository lies beside it
  std::optional<DitLayout> order;  // what the user says about the order of the qkv rows
};

// Whether a folder's config.json is that of the official transformer.
bool has_official_dit_config(const std::filesystem::path& folder);

// `path`: as given to Checkpoint::open; its name counts as evidence. A file of no known role is no error. Errors (code model): the file
// cannot be used: LogicalTensors::open's, and formats of spec/weights.md §4.10.
Result<Identity> identify(const Checkpoint& checkpoint, const std::filesystem::path& path, const FileSurroundings& surroundings);
// The same, opening the file and looking around it.
Result<Identity> identify(const std::filesystem::path& path, std::optional<DitLayout> order = std::nullopt);

// Error (usage, field qkv-order) if the user's word about the order of the qkv rows contradicts what the file proves.
Result<void> check_stated_order(const Identity& identity, const std::filesystem::path& path);

// MD5 of all names and shapes (spec/weights.md §2.4).
std::string name_shape_signature(const Checkpoint& checkpoint);
// "Comfy-Org/MiniMax-H3 ..." or empty.
std::string published_name(std::string_view signature);

}  // namespace tritium
