// What to fetch: files by relative path, with size and SHA-256 where they are known, and where each can be had (docs/fetch.md).
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::fetch {

struct ManifestFile {
  std::string path;                      // relative to the target folder, '/' between its parts, never with ".."
  std::optional<std::uint64_t> bytes;    // asked from the server when absent
  std::string sha256;                    // lower-case hexadecimal; empty: unknown
  std::string repo, revision;            // fill in {repo} and {revision} of a pattern
  std::vector<std::string> urls;         // of this file alone, tried before the patterns of the manifest
  bool optional = false;                 // may be absent on the server
  std::optional<std::int64_t> mtime_ns;  // modification time when the content was last found right; only in a folder's own manifest
};

struct Manifest {
  std::string name, description;
  std::vector<ManifestFile> files;
  std::vector<std::string> base_urls;  // patterns with {repo}, {revision} and {path}
  [[nodiscard]] const ManifestFile* find(std::string_view path) const;
  [[nodiscard]] std::uint64_t known_bytes() const;
};

// {"name", "description", "repo", "revision", "base_urls": [...], "files": [{"path", "bytes", "sha256", "url" | "urls", "repo",
// "revision", "optional"}]}. Error code usage, field "manifest": `source` (a file name), the entry and what is wrong with it: unknown
// keys, paths that leave the folder or come twice, a size or hash that cannot be one.
Result<Manifest> parse_manifest(std::string_view text, const std::string& source);
// Error code usage when there is no such file.
Result<Manifest> read_manifest(const std::filesystem::path& file);
std::string manifest_json(const Manifest& manifest);

// Empty, or what is wrong with a path that a manifest gives.
std::string path_problem(std::string_view path);

// "https://host/{repo}/{revision}/{path}" for one file; the path is percent-encoded. Error code usage: an unknown {word}, or one that
// the file does not fill in.
Result<std::string> expand_pattern(const std::string& pattern, const ManifestFile& file);

// The manifests compiled in: published sets of files. nullptr when there is none of that name.
const std::vector<Manifest>& builtin_manifests();
const Manifest* builtin_manifest(std::string_view name);

// The manifest that fetch keeps in the target folder: what lies there, with the hash that was computed while fetching.
inline constexpr const char* kFolderManifest = "tritium-manifest.json";
// Empty when there is none or it cannot be understood: it only saves work.
Manifest read_folder_manifest(const std::filesystem::path& folder);
// Enters the files, by path, into what the folder's manifest already says.
Result<void> update_folder_manifest(const std::filesystem::path& folder, const std::string& name, const std::vector<ManifestFile>& files);

// Modification time in nanoseconds, as kept in a folder's manifest; none when there is no such file.
std::optional<std::int64_t> modified_ns(const std::filesystem::path& file);

}  // namespace tritium::fetch
