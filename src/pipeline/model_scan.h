// What weight files a folder holds, told from their headers (spec/weights.md §7).
//
// Understood are the official tree, diffusers' tree, ComfyUI's and DiffSynth's models folders, the cache of Hugging Face, and files lying
// side by side. The content of a file decides what it is; names only where content cannot.
#pragma once

#include "weights/identify.h"

#include <filesystem>
#include <vector>

namespace tritium {

struct PartCandidate {
  std::filesystem::path path;    // as Checkpoint::open takes it: a file, an index, or the first piece of a split file
  std::filesystem::path folder;  // it lies in
  std::filesystem::path tree;    // the partition of the official or diffusers tree it belongs to; empty: none
  Identity identity;
};

struct UnusableFile {
  std::filesystem::path path;
  Error error;
};

struct ModelFolder {
  std::filesystem::path root;
  std::vector<PartCandidate> candidates;  // of every known role
  std::vector<UnusableFile> unusable;
  std::vector<std::filesystem::path> tokenizers;  // folders with vocab.json and merges.txt
  std::vector<std::string> notes;                 // what was left out and why

  [[nodiscard]] std::vector<const PartCandidate*> of_role(PartRole role) const;
};

inline constexpr int kScanDepth = 4;         // folders below the root
inline constexpr int kScanEntries = 10'000;  // of all folders together

// Links are followed, each folder is visited once. `order`: what the user says about the qkv rows of transformers.
// Error code model: the folder does not exist or cannot be read.
Result<ModelFolder> scan_model_folder(const std::filesystem::path& root, std::optional<DitLayout> order, int depth = kScanDepth);

// A single file or part folder as a candidate. Errors: identify's.
Result<PartCandidate> part_candidate(const std::filesystem::path& path, std::optional<DitLayout> order);

// The snapshot of a folder "models--ORG--NAME" of the Hugging Face cache: that of refs/main, else the only one. Empty if `folder` is no
// such folder.
std::filesystem::path cache_snapshot(const std::filesystem::path& folder);

}  // namespace tritium
