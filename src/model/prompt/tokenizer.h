// Byte-level BPE tokenizer of the Qwen2 family (spec/text.md §1). Ids and special tokens come from the files, none is compiled in.
#pragma once

#include "model/prompt/vocabulary.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritium {

class Tokenizer {
 public:
  // `folder` holds vocab.json, merges.txt and tokenizer_config.json. Error code: model.
  static Result<Tokenizer> load(const std::filesystem::path& folder);

  // Ids of `text`; added tokens in it are honoured, nothing is put around it, nothing is cut. NUL is an ordinary character.
  // Errors (code usage): invalid UTF-8, with the offset; more than 64 MiB. Time O(n log n) for any text.
  [[nodiscard]] Result<std::vector<std::int32_t>> encode(std::string_view text) const;

  // Id of an added token by its exact content, e.g. "<|vision_start|>".
  [[nodiscard]] std::optional<std::int32_t> token_id(std::string_view added) const;

  // The bytes the ids stand for (NFC of the text that was encoded); U+FFFD for an id that does not exist. For diagnostics.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;

  // Largest id + 1: the embedding table must have at least this many rows.
  [[nodiscard]] int vocab_size() const { return static_cast<int>(vocabulary_.bytes.size()); }

 private:
  struct Scratch;
  explicit Tokenizer(Vocabulary vocabulary);
  [[nodiscard]] const AddedToken* added_at(std::string_view text, std::size_t offset) const;
  void encode_segment(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& out) const;
  void encode_piece(std::string_view bytes, Scratch& scratch, std::vector<std::int32_t>& out) const;

  Vocabulary vocabulary_;
  std::array<bool, 256> starts_added_{};  // bytes with which some added token starts
};

}  // namespace tritium
