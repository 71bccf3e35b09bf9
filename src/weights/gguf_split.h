// GGUF files that hold one model in pieces, as llama.cpp splits them: "NAME-00001-of-00003.gguf" and so on.
#pragma once

#include "weights/tensor_info.h"

#include <filesystem>

namespace tritium {

struct GgufSplit {
  std::string stem;  // "NAME"
  int number = 1;    // from 1
  int count = 1;
};

// None: not the name of a piece.
std::optional<GgufSplit> parse_gguf_split(const std::filesystem::path& path);

// All pieces of the model that `path` is a piece of, in order, in the same folder. Error code model: missing pieces, all in one message.
Result<std::vector<std::filesystem::path>> gguf_split_files(const std::filesystem::path& path, const GgufSplit& split);

// Compares what a file says about itself ("split.no", "split.count") with its place: piece `number` (from 1) of `count`; 1 of 1 is a file
// on its own. Error code model.
Result<void> check_gguf_split(const std::filesystem::path& path, const FileHeader& header, int number, int count);

}  // namespace tritium
