// How LoRA files call the layers they change (spec/dit.md §13.2, spec/weights.md §6).
#pragma once

#include "weights/lora/target.h"

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tritium {

enum class LoraRole { down, up, alpha };

// "blocks.0.mlp.fc1.lora_A.default.weight" = layer "blocks.0.mlp.fc1", down, with the infix ".default".
struct LoraKey {
  std::string_view layer;
  LoraRole role = LoraRole::down;
  bool default_infix = false;
};
// None for keys that belong to no low-rank pair.
std::optional<LoraKey> split_lora_key(std::string_view key);

// Adapters of other kinds ("LoKr", "LoHa", "DoRA", ...) by their keys; nullptr if the key is none of theirs.
const char* foreign_adapter(std::string_view key);

// Which rows of the target a pair stands for.
enum class LoraSlice { whole, q, k, v };

enum class LoraDialect {
  diffusers,  // diffusers names; q, k and v apart, the halves of the first MLP matrix swapped
  diffsynth,  // official names with ".default": fused qkv rows interleaved per head
  comfy,      // official names behind a prefix, rows as in single-file repacks
  bare,       // the same without a prefix
  kohya,      // names flattened with underscores, rows as in single-file repacks
};
const char* dialect_name(LoraDialect dialect);

struct LoraPlace {
  std::size_t target = 0;  // index into the list given to LoraNames
  LoraSlice slice = LoraSlice::whole;
  LoraDialect dialect = LoraDialect::bare;
};

class LoraNames {
 public:
  explicit LoraNames(std::span<const LoraTarget> targets);

  // Where a key's pair belongs: prefixes taken away, the name as it is, or with every dot as an underscore. Never more than one place: a
  // name that two layers could claim is nobody's.
  [[nodiscard]] std::optional<LoraPlace> find(const LoraKey& key) const;

 private:
  struct Entry {
    std::size_t target;
    LoraSlice slice;
    bool diffusers, ambiguous;
  };
  using Names = std::map<std::string, Entry, std::less<>>;
  static void add(Names& names, std::string name, Entry entry);
  void add_both(const std::string& name, const Entry& entry);

  Names dotted_, flat_;
};

}  // namespace tritium
