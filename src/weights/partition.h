// The two models of the release. Names, shapes and types of their transformers are the same: what a file is can only be told from what
// stands around it (spec/weights.md §1.1).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium {

enum class Partition { fl2va, ref2va };
const char* partition_name(Partition partition);  // "FL2VA", "Ref2VA"

// "fl2va", "FL2VA", "fl2v", "ref2va", ...; none for anything else.
std::optional<Partition> partition_from_name(std::string_view name);

// What a text, such as the name of a file, says; none if it names neither or both.
std::optional<Partition> partition_in_text(std::string_view text);

struct PartitionEvidence {
  struct Sign {
    Partition partition = Partition::fl2va;
    std::string where;  // "its name 'minimax_h3_fl2va_bf16.safetensors'"
  };
  std::vector<Sign> signs;

  // None without any sign, or if they contradict each other.
  [[nodiscard]] std::optional<Partition> verdict() const;
  [[nodiscard]] bool contradictory() const { return !signs.empty() && !verdict(); }
  // "FL2VA: its name '...'; Ref2VA: the folder '...'", or "nothing says which".
  [[nodiscard]] std::string text() const;
};

// Of a transformer: the file's name, the names of up to three folders above it, a model_index.json above its folder, and its metadata.
// `split_qkv`: a file in diffusers' layout, where "transformer" beside "transformer_ref" means FL2VA.
PartitionEvidence find_partition(const std::filesystem::path& file, const std::map<std::string, std::string, std::less<>>& metadata,
                                 bool split_qkv);

}  // namespace tritium
