// Whole synthetic models: configurations of the released model, of the demonstration model or of a tiny one, changed as wanted, with
// random weights, in a folder like the one the converter makes.
#pragma once

#include "weights/convert/rules.h"

#include <tritium/cancel.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tritium {

struct SynthModelOptions {
  std::string preset = "tiny";  // "released", "demo", "tiny"
  std::filesystem::path demo;   // folder of the demonstration model: tokenizer, and configurations of the small presets
  std::vector<PartKind> parts;  // empty: all, and then the VAEs have their natural types, as the converter leaves them
  TargetFormat format;
  std::int64_t prune_rank = 0;  // of the transformer's curve table; 0: full
  std::int64_t vocabulary = 0;  // of the text encoder; 0: that of the preset. Below 100000: with the demonstration model's tokenizer
  // Keys of the configurations, "dit.num_layers" = "12": parts dit, text, video, source (of the video VAE), audio. Values are JSON.
  std::map<std::string, std::string> set;
  std::uint64_t seed = 0;
  int threads = 1;
  bool overwrite = false;
};

struct SynthFile {
  PartKind kind = PartKind::dit;
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

using SynthProgress = std::function<void(PartKind, std::uint64_t done, std::uint64_t total)>;

// Errors: usage for presets, keys and values that are not known; those of the configurations' parsers; write_synthetic_part's.
Result<std::vector<SynthFile>> write_synthetic_model(const std::filesystem::path& folder, const SynthModelOptions& options,
                                                     const SynthProgress& progress = {}, const CancelToken* cancel = nullptr);

}  // namespace tritium
