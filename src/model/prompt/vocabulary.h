// The tables behind the tokenizer, read from vocab.json, merges.txt and tokenizer_config.json (spec/text.md §1).
#pragma once

#include <tritium/result.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tritium {

// Pair of token ids -> rank of its merge; open addressing, filled once.
class MergeTable {
 public:
  static constexpr std::int32_t kNone = -1;

  void reserve(std::size_t merges);
  // False when the pair is there already.
  bool insert(std::int32_t left, std::int32_t right, std::int32_t rank);
  [[nodiscard]] std::int32_t rank(std::int32_t left, std::int32_t right) const {
    if (slots_.empty()) return kNone;
    const std::uint64_t wanted = key(left, right);
    for (std::size_t i = slot_of(wanted);; i = (i + 1) & (slots_.size() - 1))
      if (slots_[i].rank == kNone || slots_[i].key == wanted) return slots_[i].rank;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::int32_t rank = kNone;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t k) const { return static_cast<std::size_t>((k * 0x9E3779B97F4A7C15ull) >> shift_); }

  std::vector<Slot> slots_;  // a power of two, at most half full
  int shift_ = 63;
};

struct Merge {
  std::int32_t left = 0, right = 0, product = 0;
};

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
};

struct Vocabulary {
  std::vector<std::string> bytes;            // by id: the bytes a token stands for; empty for ids nobody uses
  std::array<std::int32_t, 256> byte_ids{};  // the token of each single byte
  std::vector<Merge> merges;                 // by rank
  MergeTable ranks;
  std::vector<AddedToken> added;  // longest content first; the contents differ

  // Errors (code model) name the file, where it can be said the line, and the token concerned. Checked: ids are dense and unique, all
  // 256 byte symbols exist, every merge joins known tokens to a known token, and every token can be produced (a shortened merges.txt
  // would otherwise go unnoticed and change every prompt).
  static Result<Vocabulary> load(const std::filesystem::path& folder);
};

}  // namespace tritium
