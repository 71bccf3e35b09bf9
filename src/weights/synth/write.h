// Writes a synthetic part of a model: a weight file with random, well-scaled values, laid out and named as the converter would.
#pragma once

#include "weights/convert/rules.h"
#include "weights/synth/fill.h"

#include <tritium/cancel.h>

#include <filesystem>
#include <functional>

namespace tritium {

struct SynthPart {
  PartKind kind = PartKind::dit;
  std::vector<SynthTensor> tensors;
  FileMetadata metadata;  // configurations, partition, ...
  bool pruned = false;    // the transformer has a curve table
};

struct SynthOptions {
  TargetFormat format;  // Encoding::keep: every tensor has its natural type
  Container container = Container::safetensors;
  std::uint64_t seed = 0;
  int threads = 1;
  bool overwrite = false;
  std::string version;  // of this program, for the metadata
};

// The same part, format and seed give the same bytes, whatever the number of threads. Memory: kSynthPieceBytes per thread and some tables.
// Returns the size of the file. `progress`: bytes done and in all, from several threads, one at a time.
// Errors: usage (the target exists and overwrite is false), does_not_fit (no room on the disk), failure, interrupted.
inline constexpr std::uint64_t kSynthPieceBytes = 4u << 20;
Result<std::uint64_t> write_synthetic_part(const SynthPart& part, const std::filesystem::path& target, const SynthOptions& options,
                                           const std::function<void(std::uint64_t, std::uint64_t)>& progress = {},
                                           const CancelToken* cancel = nullptr);

}  // namespace tritium
