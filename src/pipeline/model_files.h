// Which files make up the model: from what a folder holds and what the user named, one of each part (spec/weights.md §7).
//
// The rule for several candidates of one part, first difference decides:
//   1. named on the command line;
//   2. transformers: of the partition the request needs; other parts: widths as the chosen transformer's;
//   3. complete before incomplete;
//   4. fits into the available memory;
//   5. in the same official tree (of a transformer: in any);
//   6. most bytes, that is the highest precision (fewest if none fits);
//   7. first by name.
#pragma once

#include "pipeline/model_scan.h"

namespace tritium {

// What the user says about the model; everything may be empty.
struct ModelSelection {
  std::filesystem::path dit, text_encoder, video_vae, audio_vae, tokenizer;
  std::optional<Partition> partition;
  Partition preferred = Partition::fl2va;  // where a model has both and none is named
  std::optional<DitLayout> qkv_order;
};
// From "fl2va"/"ref2va" and "interleaved"/"plain"; empty strings say nothing. Error code usage.
Result<ModelSelection> parse_model_selection(const std::string& partition, const std::string& qkv_order);

struct ChosenPart {
  PartCandidate file;
  std::string why;
  std::vector<std::string> alternatives;  // a line each
};

struct ModelFiles {
  std::filesystem::path root;  // the partition's folder of an official tree, otherwise the folder given
  Partition partition = Partition::fl2va;
  std::string partition_reason;
  ChosenPart dit, text_encoder, video_vae, audio_vae;
  std::filesystem::path tokenizer;  // a folder
  std::vector<std::string> notes;
};

// `path`: a folder, or the transformer's file, whose neighbours are then looked at; may be empty if every part is named.
// Errors (code model, field model or the option's name): what is missing, unusable or cannot be proven, and the option that helps; usage
// for an order of the qkv rows that the transformer disproves.
Result<ModelFiles> find_model_files(const std::filesystem::path& path, const ModelSelection& selection, std::uint64_t available_memory);

// The folder of the tokenizer: named, beside the text encoder, in the model's folder, in the Hugging Face cache.
Result<std::filesystem::path> find_tokenizer(const ModelFolder& folder, const PartCandidate& text_encoder,
                                             const std::filesystem::path& named);

// "diffusion_models/minimax_h3_fl2va_bf16.safetensors: BF16, 61.7 GiB"
std::string candidate_line(const PartCandidate& candidate, const std::filesystem::path& root);

}  // namespace tritium
