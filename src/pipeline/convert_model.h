// What is to be converted: the parts of a model folder, or a single part, with everything their configuration needs.
#pragma once

#include "pipeline/model_files.h"
#include "weights/convert/convert.h"

#include <optional>

namespace tritium {

struct ConvertModel {
  std::vector<ConvertSource> parts;  // of those asked for
  bool whole = false;                // came from a model folder, not from a single part
  std::optional<Partition> partition;
  std::string name;                                             // of the model, for file names: "minimax_h3_fl2va", "demo_fl2va"
  std::filesystem::path tokenizer;                              // a folder; empty: none is needed
  std::vector<std::filesystem::path> processors, descriptions;  // small files that go along: preprocessor configurations; defaults
  std::vector<std::string> notes;
};

// `path`: a model folder, a part's folder or a file. `wanted`: empty means every part there is.
// Errors: those of find_model_files and of identifying a file; usage if a part is asked for that the source is not.
Result<ConvertModel> open_convert_model(const std::filesystem::path& path, const std::vector<PartKind>& wanted,
                                        const ModelSelection& selection);

// Where a part goes in a folder like ComfyUI's models/: "diffusion_models/<name>_<format>.safetensors", ...
std::filesystem::path comfy_path(PartKind kind, const ConvertModel& model, const TargetFormat& format, Container container);

// The tokenizer and the small files, into `folder`. Errors: those of the file system.
Result<void> copy_companions(const ConvertModel& model, const std::filesystem::path& folder);

}  // namespace tritium
