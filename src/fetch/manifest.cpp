#include "fetch/manifest.h"

#include "base/files.h"
#include "base/try.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

using json = nlohmann::json;
using ordered_json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxManifestBytes = 16u << 20;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 50;

// Of one manifest: names it and the entry at fault.
class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  Result<Manifest> parse(std::string_view text) {
    const json document = json::parse(text, nullptr, false);
    if (document.is_discarded()) return bad("not valid JSON");
    if (!document.is_object()) return bad("not a JSON object");
    Manifest out;
    where_ = "the manifest";
    for (const auto& [key, value] : document.items()) TRITIUM_TRY(top_level(key, value, out));
    const auto files = document.find("files");
    if (files == document.end() || !files->is_array() || files->empty()) return bad("\"files\" must be a list with at least one file");
    std::set<std::string> seen;
    for (std::size_t i = 0; i < files->size(); ++i) {
      where_ = fmt::format("files[{}]", i);
      TRITIUM_TRY_ASSIGN(ManifestFile file, entry((*files)[i]));
      if (!seen.insert(file.path).second) return bad(fmt::format("path '{}' comes twice", file.path));
      if (file.repo.empty()) file.repo = repo_;
      if (file.revision.empty()) file.revision = revision_;
      out.files.push_back(std::move(file));
    }
    return out;
  }

 private:
  Error bad(const std::string& what) const {
    return Error{ErrorCode::usage, fmt::format("'{}': {}{}", source_, where_.empty() ? "" : where_ + ": ", what), "manifest",
                 "docs/fetch.md describes the format"};
  }

  Result<void> text(const std::string& key, const json& value, std::string& out) const {
    if (!value.is_string()) return bad(fmt::format("\"{}\" must be a text", key));
    out = value.get<std::string>();
    if (std::any_of(out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
      return bad(fmt::format("\"{}\" holds a control character", key));
    return {};
  }

  Result<void> texts(const std::string& key, const json& value, std::vector<std::string>& out) const {
    if (!value.is_array()) return bad(fmt::format("\"{}\" must be a list of texts", key));
    for (const json& item : value) {
      std::string one;
      TRITIUM_TRY(text(key, item, one));
      out.push_back(std::move(one));
    }
    return {};
  }

  Result<void> top_level(const std::string& key, const json& value, Manifest& out) {
    if (key == "name") return text(key, value, out.name);
    if (key == "description") return text(key, value, out.description);
    if (key == "repo") return text(key, value, repo_);
    if (key == "revision") return text(key, value, revision_);
    if (key == "base_urls") return texts(key, value, out.base_urls);
    if (key == "files" || key == "comment") return {};
    return bad(fmt::format("unknown key \"{}\"", key));
  }

  Result<ManifestFile> entry(const json& value) const {
    if (!value.is_object()) return bad("not an object");
    ManifestFile out;
    for (const auto& [key, item] : value.items()) TRITIUM_TRY(field(key, item, out));
    if (const std::string problem = path_problem(out.path); !problem.empty()) return bad(problem);
    return out;
  }

  Result<void> field(const std::string& key, const json& value, ManifestFile& out) const {
    if (key == "path") return text(key, value, out.path);
    if (key == "repo") return text(key, value, out.repo);
    if (key == "revision") return text(key, value, out.revision);
    if (key == "urls") return texts(key, value, out.urls);
    if (key == "url") {
      out.urls.emplace_back();
      return text(key, value, out.urls.back());
    }
    if (key == "optional") {
      if (!value.is_boolean()) return bad("\"optional\" must be true or false");
      out.optional = value.get<bool>();
      return {};
    }
    if (key == "mtime_ns") {
      if (!value.is_number_integer()) return bad("\"mtime_ns\" must be a whole number");
      out.mtime_ns = value.get<std::int64_t>();
      return {};
    }
    if (key == "bytes") return size(value, out);
    if (key == "sha256") return hash(value, out);
    return bad(fmt::format("unknown key \"{}\"", key));
  }

  Result<void> size(const json& value, ManifestFile& out) const {
    if (value.is_null()) return {};
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMaxFileBytes)
      return bad(fmt::format("\"bytes\" is {}, not a whole number from 0 to {}", value.dump(), kMaxFileBytes));
    out.bytes = value.get<std::uint64_t>();
    return {};
  }

  Result<void> hash(const json& value, ManifestFile& out) const {
    if (value.is_null()) return {};
    TRITIUM_TRY(text("sha256", value, out.sha256));
    std::transform(out.sha256.begin(), out.sha256.end(), out.sha256.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (out.sha256.size() != 64 || out.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
      return bad(fmt::format("\"sha256\" is '{}', not 64 hexadecimal digits", out.sha256));
    return {};
  }

  const std::string& source_;
  std::string where_, repo_, revision_ = "main";
};

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~' ||
         c == '/';
}

std::string percent_encoded(const std::string& path) {
  std::string out;
  for (const char c : path) out += is_unreserved(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

const ManifestFile* Manifest::find(std::string_view path) const {
  for (const ManifestFile& file : files)
    if (file.path == path) return &file;
  return nullptr;
}

std::uint64_t Manifest::known_bytes() const {
  std::uint64_t sum = 0;
  for (const ManifestFile& file : files) sum += file.bytes.value_or(0);
  return sum;
}

std::string path_problem(std::string_view path) {
  if (path.empty()) return "\"path\" is missing";
  if (path.size() > 1024) return fmt::format("path of {} bytes, at most 1024 are allowed", path.size());
  if (path.front() == '/') return fmt::format("path '{}' is not relative", path);
  if (path.find('\\') != std::string_view::npos) return fmt::format("path '{}' holds a backslash", path);
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return fmt::format("path '{}' has the part '{}'", path, part);
    if (part.size() > 200) return fmt::format("a part of path '{}' is longer than 200 bytes", path);
    begin = end + 1;
  }
  const auto ends = [&](std::string_view end) { return path.ends_with(end); };
  if (ends(".tritium-part") || ends(".tritium-part.json") || path == kFolderManifest || path == ".tritium-fetch.lock")
    return fmt::format("path '{}' is a name that fetch keeps for itself", path);
  return {};
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& source) { return Parser(source).parse(text); }

Result<Manifest> read_manifest(const fs::path& file) {
  auto text = read_file(file, kMaxManifestBytes);
  if (!text.ok()) return Error{ErrorCode::usage, text.error().message, "manifest", "'tritium fetch --list' shows the built-in ones"};
  return parse_manifest(*text, file.string());
}

std::string manifest_json(const Manifest& manifest) {
  ordered_json out{{"name", manifest.name}};
  if (!manifest.description.empty()) out["description"] = manifest.description;
  if (!manifest.base_urls.empty()) out["base_urls"] = manifest.base_urls;
  out["files"] = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    ordered_json entry{{"path", file.path}};
    if (file.bytes) entry["bytes"] = *file.bytes;
    if (!file.sha256.empty()) entry["sha256"] = file.sha256;
    if (!file.repo.empty()) entry["repo"] = file.repo;
    if (!file.revision.empty()) entry["revision"] = file.revision;
    if (!file.urls.empty()) entry["urls"] = file.urls;
    if (file.optional) entry["optional"] = true;
    if (file.mtime_ns) entry["mtime_ns"] = *file.mtime_ns;
    out["files"].push_back(std::move(entry));
  }
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<std::string> expand_pattern(const std::string& pattern, const ManifestFile& file) {
  const auto bad = [&](const std::string& what) { return Error{ErrorCode::usage, fmt::format("'{}': {}", pattern, what), "url", ""}; };
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t open = pattern.find('{', at);
    out += pattern.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    const std::size_t close = pattern.find('}', open);
    if (close == std::string::npos) return bad("'{' without '}'");
    const std::string word = pattern.substr(open + 1, close - open - 1);
    if (word != "repo" && word != "revision" && word != "path")
      return bad(fmt::format("unknown '{{{}}}', known are {{repo}}, {{revision}} and {{path}}", word));
    const std::string value = word == "repo" ? file.repo : word == "revision" ? file.revision : file.path;
    if (value.empty()) return bad(fmt::format("file '{}' has no {}", file.path, word));
    out += percent_encoded(value);
    at = close + 1;
  }
  if (!out.starts_with("https://") && !out.starts_with("http://")) return bad("neither http:// nor https://");
  return out;
}

const Manifest* builtin_manifest(std::string_view name) {
  for (const Manifest& manifest : builtin_manifests())
    if (manifest.name == name) return &manifest;
  return nullptr;
}

Manifest read_folder_manifest(const fs::path& folder) {
  auto manifest = read_manifest(folder / kFolderManifest);
  return manifest.ok() ? std::move(*manifest) : Manifest{};
}

Result<void> update_folder_manifest(const fs::path& folder, const std::string& name, const std::vector<ManifestFile>& files) {
  Manifest all = read_folder_manifest(folder);
  if (all.name.empty()) all.name = name;
  all.base_urls.clear();
  for (const ManifestFile& file : files) {
    const auto same = [&](const ManifestFile& other) { return other.path == file.path; };
    const auto found = std::find_if(all.files.begin(), all.files.end(), same);
    if (found == all.files.end()) {
      all.files.push_back(file);
    } else {
      *found = file;
    }
  }
  return write_file_atomically(folder / kFolderManifest, manifest_json(all));
}

std::optional<std::int64_t> modified_ns(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace tritium::fetch
