// One file, from whichever of its addresses can give it, under its name only when it is complete and right.
#pragma once

#include "fetch/manifest.h"
#include "fetch/transfer.h"

namespace tritium::fetch {

struct DownloadJob {
  std::filesystem::path target;
  ManifestFile file;
  std::vector<std::string> urls;       // in the order of trying, at least one
  std::optional<std::uint64_t> asked;  // size as a server told it, where the manifest has none
};

struct Downloaded {
  bool absent = false;  // an optional file that no address has
  std::uint64_t bytes = 0;
  std::string sha256;
};

// Errors: failure (every address, with its reason), model (the content is not what the manifest says), does_not_fit (disk),
// interrupted. What was fetched until then is kept for the next time.
Result<Downloaded> download(const DownloadJob& job, const TransferSettings& settings, RateLimiter& limiter, Reporter& reporter,
                            const CancelToken* cancel);

// Space for `bytes` more in this folder? Error code does_not_fit with need and have.
Result<void> check_space(const std::filesystem::path& folder, std::uint64_t bytes);
// Bytes on the disk of the unfinished part of a file.
std::uint64_t part_bytes(const std::filesystem::path& target);

}  // namespace tritium::fetch
