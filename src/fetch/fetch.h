// Fetching the files of a manifest into a folder (docs/fetch.md).
#pragma once

#include "base/cancel.h"
#include "fetch/manifest.h"
#include "fetch/progress.h"
#include "fetch/transfer.h"

namespace tritium::fetch {

struct FetchOptions {
  std::filesystem::path folder;
  std::vector<std::string> mirrors;  // patterns, tried before the manifest's own addresses
  std::string only;                  // glob over paths or file names; empty: everything
  TransferSettings transfer;         // its token's hosts are filled in from the manifest when they are empty
  std::uint64_t rate_limit = 0;      // bytes per second, all connections together; 0: none
  bool wait = false;                 // for another fetch into the same folder
};

enum class FileState { present, fetched, absent };

struct FetchedFile {
  std::string path;
  FileState state = FileState::present;
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct FetchReport {
  std::vector<FetchedFile> files;
  std::uint64_t received = 0;  // bytes over the network
  double seconds = 0;
};

// Errors: usage (manifest, patterns), failure (files that could not be fetched, after everything else was), model (a hash that is wrong
// wherever the file comes from), does_not_fit (disk), interrupted. Whatever happens, a file has its name only when it is complete and
// right, and what was fetched of others is used the next time.
Result<FetchReport> fetch(const Manifest& manifest, const FetchOptions& options, const FetchHooks& hooks, const CancelToken* cancel);

// What fetch would do, without the network. Hashes nothing: a file of the right size counts as present.
struct PlannedFile {
  ManifestFile file;
  bool present = false;
  std::uint64_t kept = 0;  // bytes of an unfinished part
  std::vector<std::string> urls;
};
Result<std::vector<PlannedFile>> plan_fetch(const Manifest& manifest, const FetchOptions& options);

}  // namespace tritium::fetch
