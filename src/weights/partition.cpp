#include "weights/partition.h"

#include "base/files.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kFoldersLookedAt = 3;
constexpr std::uint64_t kIndexLimit = 1u << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "_minimax_h3": {"partition": "fl2va"} of the official tree.
std::optional<Partition> partition_of_index(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  const auto text = read_file(path, kIndexLimit);
  if (!text.ok()) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("_minimax_h3") || !json["_minimax_h3"].is_object()) return std::nullopt;
  const auto& own = json["_minimax_h3"];
  if (!own.contains("partition") || !own["partition"].is_string()) return std::nullopt;
  return partition_from_name(own["partition"].get<std::string>());
}

}  // namespace

const char* partition_name(Partition partition) { return partition == Partition::fl2va ? "FL2VA" : "Ref2VA"; }

std::optional<Partition> partition_from_name(std::string_view name) {
  const std::string text = lower(name);
  if (text == "fl2va" || text == "fl2v") return Partition::fl2va;
  if (text == "ref2va" || text == "ref2v") return Partition::ref2va;
  return std::nullopt;
}

std::optional<Partition> partition_in_text(std::string_view name) {
  const std::string text = lower(name);
  const bool first = text.find("fl2v") != std::string::npos, second = text.find("ref2v") != std::string::npos;
  if (first == second) return std::nullopt;
  return first ? Partition::fl2va : Partition::ref2va;
}

std::optional<Partition> PartitionEvidence::verdict() const {
  if (signs.empty()) return std::nullopt;
  const auto differs = [&](const Sign& sign) { return sign.partition != signs.front().partition; };
  if (std::any_of(signs.begin(), signs.end(), differs)) return std::nullopt;
  return signs.front().partition;
}

std::string PartitionEvidence::text() const {
  if (signs.empty()) return "nothing says which";
  std::string out;
  for (const Sign& sign : signs) out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", partition_name(sign.partition), sign.where);
  return out;
}

PartitionEvidence find_partition(const fs::path& file, const std::map<std::string, std::string, std::less<>>& metadata, bool split_qkv) {
  PartitionEvidence out;
  const auto add = [&](std::optional<Partition> partition, const std::string& where) {
    if (partition) out.signs.push_back({*partition, where});
  };
  add(partition_in_text(file.filename().string()), fmt::format("its name '{}'", file.filename().string()));
  constexpr std::array<const char*, 5> kKeys = {"tritium.partition", "partition", "variant", "modelspec.title", "general.name"};
  for (const char* key : kKeys)
    if (const auto found = metadata.find(key); found != metadata.end())
      add(partition_in_text(found->second), fmt::format("its metadata {} = '{}'", key, found->second));
  std::error_code ignored;
  fs::path folder = fs::absolute(file, ignored).lexically_normal().parent_path();
  add(partition_of_index(folder.parent_path() / "model_index.json"),
      fmt::format("'{}'", (folder.parent_path() / "model_index.json").string()));
  if (split_qkv && folder.filename() == "transformer_ref") add(Partition::ref2va, "the folder 'transformer_ref'");
  if (split_qkv && folder.filename() == "transformer" && fs::is_directory(folder.parent_path() / "transformer_ref", ignored))
    add(Partition::fl2va, "the folder 'transformer' beside 'transformer_ref'");
  for (int i = 0; i < kFoldersLookedAt && folder.has_relative_path(); ++i, folder = folder.parent_path())
    if (const auto partition = partition_in_text(folder.filename().string())) {
      add(partition, fmt::format("the folder '{}'", folder.filename().string()));
      break;  // the nearest one counts
    }
  return out;
}

}  // namespace tritium
