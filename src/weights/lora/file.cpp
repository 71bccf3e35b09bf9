#include "weights/lora/file.h"

#include "base/hash.h"
#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace tritium {
namespace {

constexpr std::size_t kShownKeys = 4;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

Result<std::shared_ptr<const LoraFile>> LoraFile::open(const std::filesystem::path& path) {
  TRITIUM_TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open(path));
  std::shared_ptr<LoraFile> file(new LoraFile(path, std::move(checkpoint)));
  TRITIUM_TRY(file->collect());
  file->sign();
  return std::shared_ptr<const LoraFile>(std::move(file));
}

Result<void> LoraFile::collect() {
  std::map<std::pair<std::string_view, bool>, LoraPair> pairs;
  std::vector<std::pair<std::string_view, const TensorInfo*>> alphas;
  const std::vector<std::string> names = checkpoint_.names();
  for (const std::string& name : names) {
    if (const char* kind = foreign_adapter(name))
      return Error{ErrorCode::model, fmt::format("'{}' is a {} adapter (tensor '{}')", path_.string(), kind, name), "lora",
                   "only LoRA, pairs of two low-rank factors, can be applied"};
    const auto key = split_lora_key(name);
    if (!key) {
      other_keys_.push_back(name);
      continue;
    }
    const TensorInfo* tensor = checkpoint_.find(name);
    if (key->role == LoraRole::alpha) {
      alphas.emplace_back(key->layer, tensor);
      continue;
    }
    LoraPair& pair = pairs[{key->layer, key->default_infix}];
    pair.layer = key->layer;
    pair.default_infix = key->default_infix;
    const TensorInfo*& factor = key->role == LoraRole::down ? pair.down : pair.up;
    if (factor != nullptr)
      return Error{ErrorCode::model, fmt::format("'{}' has two tensors for one factor: '{}' and '{}'", path_.string(), factor->name, name),
                   "lora", ""};
    factor = tensor;
  }
  if (pairs.empty()) return not_a_lora();
  // The alpha of a layer is written without the infix.
  for (const auto& [layer, tensor] : alphas) {
    bool used = false;
    for (const bool infix : {false, true})
      if (const auto at = pairs.find({layer, infix}); at != pairs.end()) {
        at->second.alpha = tensor;
        used = true;
      }
    if (!used) other_keys_.push_back(tensor->name);
  }
  for (auto& [key, pair] : pairs) pairs_.push_back(std::move(pair));
  return {};
}

Error LoraFile::not_a_lora() const {
  const auto any = [&](std::string_view part) {
    return std::any_of(other_keys_.begin(), other_keys_.end(), [&](const std::string& key) { return contains(key, part); });
  };
  if (any("video_patch_proj.weight") || any("qkv_proj.weight") || any("attn.to_q.weight") || any("audio_proj_in.weight"))
    return Error{ErrorCode::model, fmt::format("'{}' is a full checkpoint of a transformer, not a LoRA", path_.string()), "lora",
                 "give it as the model"};
  if (any(".diff") && !any(".weight"))
    return Error{ErrorCode::model, fmt::format("'{}' holds full differences of matrices, not low-rank pairs", path_.string()), "lora", ""};
  const std::vector<std::string> first(other_keys_.begin(),
                                       other_keys_.begin() + static_cast<std::ptrdiff_t>(std::min(kShownKeys, other_keys_.size())));
  return Error{ErrorCode::model,
               fmt::format("'{}' is not a LoRA: none of its {} tensors is a factor of a low-rank pair; the first are: {}", path_.string(),
                           other_keys_.size(), fmt::join(first, ", ")),
               "lora", "expected are names such as 'blocks.0.attn.qkv_proj.lora_A.weight'"};
}

void LoraFile::sign() {
  signature_.pairs = pairs_.size();
  for (const LoraPair& pair : pairs_) {
    if (pair.down != nullptr && pair.down->shape.size() == 2) ++signature_.ranks[pair.down->shape[0]];
    for (const char* part : {"to_q", "to_k", "to_v"}) signature_.diffusers_names |= contains(pair.layer, part);
    for (const char* part : {"adaln_proj", "norm_out.linear", "norm_out_linear"}) signature_.modulation |= contains(pair.layer, part);
  }
}

const std::string* LoraFile::metadata(std::string_view key) const {
  for (const auto& file : checkpoint_.files()) {
    const auto& entries = file.header().metadata;
    if (const auto at = entries.find(key); at != entries.end()) return &at->second;
  }
  return nullptr;
}

std::string LoraFile::header_sha256() const {
  std::string text;
  for (const std::string& name : checkpoint_.names()) {
    const TensorInfo* tensor = checkpoint_.find(name);
    text += fmt::format("{}:{}:{}:{}\n", name, dtype_name(tensor->dtype), shape_text(tensor->shape), tensor->offset);
  }
  return sha256_hex(text);
}

}  // namespace tritium
