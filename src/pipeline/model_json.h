// Describing a model folder for people and machines ("tritium inspect").
#pragma once

#include "pipeline/model_info.h"

namespace tritium {

std::string describe_model_json(const ModelInfo& model);
std::string describe_model_text(const ModelInfo& model);

// One weight file on its own: container facts, dtypes, bytes. Error code model.
struct FileDescription {
  std::string text, json;
};
Result<FileDescription> describe_file(const std::filesystem::path& path);

}  // namespace tritium
