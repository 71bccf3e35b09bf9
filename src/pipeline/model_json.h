// Describing models and weight files for people and machines ("tritium inspect").
#pragma once

#include "pipeline/model_info.h"

namespace tritium {

std::string describe_model_json(const ModelInfo& model);
std::string describe_model_text(const ModelInfo& model);

struct FileDescription {
  std::string text, json;
};

// One weight file or part folder on its own, with all its tensors. Error code model.
Result<FileDescription> describe_file(const std::filesystem::path& path, std::optional<DitLayout> order = std::nullopt);

// The weight files of a folder that is no complete model. Error code model: the folder cannot be read.
FileDescription describe_folder(const ModelFolder& folder);

}  // namespace tritium
