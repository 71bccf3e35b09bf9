// A LoRA file as a list of low-rank pairs, before anything is known about the model.
#pragma once

#include "weights/checkpoint.h"
#include "weights/lora/names.h"

#include <filesystem>
#include <map>
#include <memory>

namespace tritium {

// The tensors of one layer name in the file.
struct LoraPair {
  std::string layer;  // as the file says, prefixes included
  bool default_infix = false;
  const TensorInfo *down = nullptr, *up = nullptr, *alpha = nullptr;  // A [r, in], B [out, r], a scalar
};

// What the pairs look like as a whole: recognises published files whatever they are called.
struct LoraSignature {
  std::size_t pairs = 0;
  std::map<std::int64_t, std::size_t> ranks;  // rows of A -> pairs
  bool diffusers_names = false;               // any to_q, to_k, to_v
  bool modulation = false;                    // any adaLN pair
};

class LoraFile {
 public:
  // Errors (code model): Checkpoint::open's; a file without low-rank pairs, saying what it is instead (a full checkpoint, LoKr, LoHa,
  // DoRA, ...); an adapter with factors of another kind beside them; two tensors for one factor.
  static Result<std::shared_ptr<const LoraFile>> open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string name() const { return path_.filename().string(); }
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }
  [[nodiscard]] const std::vector<LoraPair>& pairs() const { return pairs_; }  // by layer; some may lack a factor
  [[nodiscard]] const std::vector<std::string>& other_keys() const { return other_keys_; }
  [[nodiscard]] const LoraSignature& signature() const { return signature_; }
  // Of the file's header; nullptr when there is no such entry.
  [[nodiscard]] const std::string* metadata(std::string_view key) const;
  // SHA-256 over names, types, shapes and places of all tensors.
  [[nodiscard]] std::string header_sha256() const;

 private:
  LoraFile(std::filesystem::path path, Checkpoint checkpoint) : path_(std::move(path)), checkpoint_(std::move(checkpoint)) {}
  Result<void> collect();
  [[nodiscard]] Error not_a_lora() const;
  void sign();

  std::filesystem::path path_;
  Checkpoint checkpoint_;
  std::vector<LoraPair> pairs_;
  std::vector<std::string> other_keys_;
  LoraSignature signature_;
};

}  // namespace tritium
