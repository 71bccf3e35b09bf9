// Whether the files of a folder are complete and sound (docs/fetch.md).
#pragma once

#include "base/cancel.h"
#include "fetch/manifest.h"
#include "fetch/progress.h"

namespace tritium::fetch {

struct VerifyOptions {
  std::filesystem::path path;        // a folder, a weight file or an index
  std::optional<Manifest> manifest;  // the folder's own, from fetch, when absent
  bool full = false;                 // also hashes and values
};

struct VerifiedFile {
  std::string path;    // relative to VerifyReport::folder
  std::string reason;  // why it is bad; empty: it is well
  std::uint64_t bytes = 0;
};

struct VerifyReport {
  std::filesystem::path folder;
  std::string manifest;             // name of the one that was used; empty: none
  std::vector<VerifiedFile> files;  // sorted by path
  [[nodiscard]] std::size_t bad() const;
};

// Fast: sizes against the manifest, the container and quantization layout of every weight file, completeness of indexes and split files,
// leftovers of unfinished downloads, dangling links. Full: also SHA-256 against the manifest, and every value and scale finite.
// Errors: usage (there is nothing of that name, or nothing in it to verify), interrupted. Bad files are in the report.
Result<VerifyReport> verify(const VerifyOptions& options, const FetchHooks& hooks, const CancelToken* cancel);

}  // namespace tritium::fetch
