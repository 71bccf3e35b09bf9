#include "pipeline/model_scan.h"

#include "base/files.h"
#include "base/try.h"
#include "weights/gguf_split.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json", kFileSuffix = ".safetensors", kGgufSuffix = ".gguf";
constexpr std::array<std::string_view, 4> kPickles = {".pt", ".pth", ".ckpt", ".bin"};
constexpr std::array<std::string_view, 4> kUnfinished = {".aria2", ".part", ".incomplete", ".crdownload"};
constexpr int kTreeDepth = 2;  // an official partition is two folders deep: video_vae/source

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}
bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

template <std::size_t N>
bool ends_with_any(std::string_view name, const std::array<std::string_view, N>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

// "model-00001-of-00013.safetensors"
bool is_shard_name(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  return name.ends_with(kFileSuffix) && of != std::string_view::npos && of >= 6 && name[of - 6] == '-';
}

// File names an index lists; empty if it cannot be read, which opening it will tell.
std::set<std::string> shards_of(const fs::path& index) {
  std::set<std::string> out;
  const auto text = read_file(index);
  if (!text.ok()) return out;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return out;
  for (const auto& [tensor, file] : json["weight_map"].items())
    if (file.is_string()) out.insert(file.get<std::string>());
  return out;
}

// The folder whose children are the parts of one model: that of "transformer" and its like.
fs::path tree_of(const fs::path& folder) {
  const std::string name = folder.filename().string(), above = folder.parent_path().filename().string();
  const fs::path up = folder.parent_path();
  if (name == "source" && (above == "video_vae" || above == "visual_vae")) return up.parent_path();
  constexpr std::array<std::string_view, 6> kParts = {"transformer", "transformer_ref", "text_encoder", "audio_vae", "video_vae", "vae"};
  const bool named = std::find(kParts.begin(), kParts.end(), name) != kParts.end();
  return named && (is_folder(up / "transformer") || is_file(up / "model_index.json")) ? up : fs::path();
}

class Scanner {
 public:
  Scanner(ModelFolder& out, std::optional<DitLayout> order, int depth) : out_(out), order_(order), depth_(depth) {}

  void visit(fs::path folder, int level) {
    if (const fs::path snapshot = cache_snapshot(folder); !snapshot.empty()) {
      folder = snapshot;
      level = 0;
    }
    std::error_code code;
    const fs::path real = fs::canonical(folder, code);
    if (code || !visited_.insert(real).second) return;
    std::vector<fs::path> entries = list(folder);
    if (is_folder(folder / "transformer")) level = std::min(level, depth_ - kTreeDepth);
    read_files(folder, entries);
    if (level >= depth_) return;
    for (const fs::path& entry : entries)
      if (is_folder(entry) && !entry.filename().string().starts_with('.')) visit(entry, level + 1);
  }

 private:
  std::vector<fs::path> list(const fs::path& folder) {
    std::vector<fs::path> out;
    std::error_code code;
    for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
      if (++entries_ > kScanEntries) {
        if (!std::exchange(stopped_, true))
          out_.notes.push_back(fmt::format("stopped after {} files and folders; name a smaller folder", kScanEntries));
        break;
      }
      out.push_back(it->path());
    }
    if (code) out_.notes.push_back(fmt::format("'{}' cannot be read: {}", folder.string(), code.message()));
    std::sort(out.begin(), out.end());
    return out;
  }

  void read_files(const fs::path& folder, const std::vector<fs::path>& entries) {
    if (is_file(folder / "vocab.json") && is_file(folder / "merges.txt")) out_.tokenizers.push_back(folder);
    std::set<std::string> shards, split_models;
    bool indexed = false;
    for (const fs::path& entry : entries)
      if (entry.filename().string().ends_with(kIndexSuffix)) {
        shards.merge(shards_of(entry));
        indexed = true;
        add(entry);
      }
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      if (name.starts_with('.') || is_folder(entry)) continue;
      if (ends_with_any(name, kUnfinished)) out_.notes.push_back(fmt::format("'{}' is an unfinished download", entry.string()));
      if (ends_with_any(name, kPickles)) add_pickle(entry);
      if (name.ends_with(kGgufSuffix)) {
        const auto split = parse_gguf_split(entry);
        if (!split || split_models.insert(split->stem).second) add(entry);
      }
      if (!name.ends_with(kFileSuffix) || shards.contains(name)) continue;
      if (!is_shard_name(name))
        add(entry);
      else if (!indexed && split_models.insert(name.substr(0, name.rfind("-of-") - 6)).second)
        out_.unusable.push_back({entry, Error{ErrorCode::model, fmt::format("'{}' is a shard whose index file is missing", entry.string()),
                                              "", "download the '.safetensors.index.json' that belongs to it"}});
    }
  }

  void add(const fs::path& path) {
    if (!is_file(path)) {
      out_.unusable.push_back(
          {path, Error{ErrorCode::model, fmt::format("'{}' is a link to a file that does not exist", path.string()), "", ""}});
      return;
    }
    auto candidate = part_candidate(path, order_);
    if (!candidate.ok())
      out_.unusable.push_back({path, candidate.error()});
    else if (candidate->identity.role != PartRole::unknown)
      out_.candidates.push_back(std::move(*candidate));
  }

  void add_pickle(const fs::path& path) {
    const auto opened = TensorFile::open(path);
    if (!opened.ok() && opened.error().message.find("pickle") != std::string::npos) out_.unusable.push_back({path, opened.error()});
  }

  ModelFolder& out_;
  std::optional<DitLayout> order_;
  int depth_ = 0, entries_ = 0;
  bool stopped_ = false;
  std::set<fs::path> visited_;
};

}  // namespace

std::vector<const PartCandidate*> ModelFolder::of_role(PartRole role) const {
  std::vector<const PartCandidate*> out;
  for (const PartCandidate& candidate : candidates)
    if (candidate.identity.role == role) out.push_back(&candidate);
  return out;
}

fs::path cache_snapshot(const fs::path& folder) {
  const fs::path snapshots = folder / "snapshots";
  if (!folder.filename().string().starts_with("models--") || !is_folder(snapshots)) return {};
  if (auto revision = read_file(folder / "refs" / "main", 1024); revision.ok()) {
    while (!revision->empty() && std::isspace(static_cast<unsigned char>(revision->back())) != 0) revision->pop_back();
    const bool plain = !revision->empty() && revision->find_first_of("/\\") == std::string::npos && *revision != "." && *revision != "..";
    if (plain && is_folder(snapshots / *revision)) return snapshots / *revision;
  }
  fs::path only;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(snapshots, code)) {
    if (!is_folder(entry.path())) continue;
    if (!only.empty()) return {};
    only = entry.path();
  }
  return only;
}

Result<PartCandidate> part_candidate(const fs::path& path, std::optional<DitLayout> order) {
  PartCandidate out;
  TRITIUM_TRY_ASSIGN(out.identity, identify(path, order));
  out.path = path;
  out.folder = is_folder(path) ? path : path.parent_path();
  out.tree = tree_of(out.folder);
  return out;
}

Result<ModelFolder> scan_model_folder(const fs::path& root, std::optional<DitLayout> order, int depth) {
  if (!is_folder(root))
    return Error{ErrorCode::model, fmt::format("the model folder '{}' does not exist", root.string()), "model",
                 "give the folder that holds the model's files with -m DIR"};
  ModelFolder out;
  out.root = root;
  Scanner(out, order, depth).visit(root, 0);
  return out;
}

}  // namespace tritium
