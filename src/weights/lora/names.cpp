#include "weights/lora/names.h"

#include "weights/dit_names.h"

#include <algorithm>
#include <array>

namespace tritium {
namespace {

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

struct RoleSuffix {
  std::string_view suffix;
  LoraRole role;
};
constexpr std::array<RoleSuffix, 6> kRoles = {{{".lora_A", LoraRole::down},
                                               {".lora_B", LoraRole::up},
                                               {".lora_down", LoraRole::down},
                                               {".lora_up", LoraRole::up},
                                               {".lora.down", LoraRole::down},
                                               {".lora.up", LoraRole::up}}};

struct ForeignMark {
  std::string_view mark;
  const char* name;
};
constexpr std::array<ForeignMark, 13> kForeign = {{{".lokr_w", "LoKr"},
                                                   {".lokr_t", "LoKr"},
                                                   {".hada_w", "LoHa"},
                                                   {".hada_t", "LoHa"},
                                                   {".dora_scale", "DoRA"},
                                                   {".lora_magnitude_vector", "DoRA"},
                                                   {".oft_blocks", "OFT"},
                                                   {".oft_diag", "OFT"},
                                                   {".oft_R", "OFT"},
                                                   {".boft_", "BOFT"},
                                                   {".lora_mid", "LoCon (three factors)"},
                                                   {".ia3_", "IA3"},
                                                   {".glora_", "GLoRA"}}};

constexpr std::array<std::string_view, 11> kPrefixes = {"model.diffusion_model.",
                                                        "diffusion_model.",
                                                        "base_model.model.",
                                                        "base_model.",
                                                        "transformer.",
                                                        "model.",
                                                        "unet.",
                                                        "dit.",
                                                        "lora_unet_",
                                                        "lora_transformer_",
                                                        "diffusion_model_"};
constexpr std::size_t kMaxPrefixes = 6;

// The name itself, then with one prefix after the other taken away.
std::vector<std::string_view> without_prefixes(std::string_view name) {
  std::vector<std::string_view> out{name};
  while (out.size() <= kMaxPrefixes) {
    const auto prefix = std::find_if(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view p) { return name.starts_with(p); });
    if (prefix == kPrefixes.end()) break;
    name.remove_prefix(prefix->size());
    out.push_back(name);
  }
  return out;
}

std::string flattened(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

std::string diffusers_layer(const std::string& official) {
  std::string name = diffusers_dit_name(official + ".weight");
  if (name.ends_with(".weight")) name.resize(name.size() - 7);
  return name;
}

constexpr std::string_view kQkv = "attn.qkv_proj";

}  // namespace

std::optional<LoraKey> split_lora_key(std::string_view key) {
  LoraKey out;
  if (take_suffix(key, ".alpha")) {
    out.role = LoraRole::alpha;
    out.layer = key;
    return key.empty() ? std::nullopt : std::optional(out);
  }
  take_suffix(key, ".weight");
  out.default_infix = take_suffix(key, ".default");
  for (const RoleSuffix& each : kRoles)
    if (take_suffix(key, each.suffix)) {
      out.role = each.role;
      out.layer = key;
      return key.empty() ? std::nullopt : std::optional(out);
    }
  return std::nullopt;
}

const char* foreign_adapter(std::string_view key) {
  for (const ForeignMark& each : kForeign)
    if (key.find(each.mark) != std::string_view::npos) return each.name;
  return nullptr;
}

const char* dialect_name(LoraDialect dialect) {
  switch (dialect) {
    case LoraDialect::diffusers:
      return "diffusers";
    case LoraDialect::diffsynth:
      return "DiffSynth (interleaved qkv)";
    case LoraDialect::comfy:
      return "ComfyUI";
    case LoraDialect::bare:
      return "bare names";
    case LoraDialect::kohya:
      return "kohya";
  }
  return "?";
}

LoraNames::LoraNames(std::span<const LoraTarget> targets) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const LoraTarget& target = targets[i];
    add_both(target.name, {i, LoraSlice::whole, false, false});
    const bool split = target.rows == LoraTarget::Rows::qkv && target.name.ends_with(kQkv);
    if (!split) {
      if (const std::string name = diffusers_layer(target.name); name != target.name) add_both(name, {i, LoraSlice::whole, true, false});
      continue;
    }
    const std::string block = target.name.substr(0, target.name.size() - kQkv.size());
    const std::pair<const char*, LoraSlice> parts[] = {{"attn.q", LoraSlice::q}, {"attn.k", LoraSlice::k}, {"attn.v", LoraSlice::v}};
    for (const auto& [part, slice] : parts) add_both(diffusers_layer(block + part), {i, slice, true, false});
  }
}

void LoraNames::add(Names& names, std::string name, Entry entry) {
  const auto [at, added] = names.emplace(std::move(name), entry);
  if (!added && (at->second.target != entry.target || at->second.slice != entry.slice)) at->second.ambiguous = true;
}

void LoraNames::add_both(const std::string& name, const Entry& entry) {
  add(dotted_, name, entry);
  add(flat_, flattened(name), entry);
}

std::optional<LoraPlace> LoraNames::find(const LoraKey& key) const {
  const std::vector<std::string_view> candidates = without_prefixes(key.layer);
  const Entry* found = nullptr;
  bool prefixed = false, flat = false;
  for (std::size_t i = 0; i < candidates.size() && found == nullptr; ++i)
    if (const auto at = dotted_.find(candidates[i]); at != dotted_.end()) {
      found = &at->second;
      prefixed = i > 0;
      flat = prefixed && key.layer.find('.') == std::string_view::npos;
    }
  // Flattened names, and those a converter has mangled ("qkv.proj").
  for (std::size_t i = 0; i < candidates.size() && found == nullptr; ++i)
    if (const auto at = flat_.find(flattened(candidates[i])); at != flat_.end()) {
      found = &at->second;
      prefixed = i > 0;
      flat = candidates[i].find('.') == std::string_view::npos;
    }
  if (found == nullptr || found->ambiguous) return std::nullopt;
  LoraPlace place{found->target, found->slice, LoraDialect::bare};
  if (found->diffusers)
    place.dialect = LoraDialect::diffusers;
  else if (key.default_infix)
    place.dialect = LoraDialect::diffsynth;
  else if (flat)
    place.dialect = LoraDialect::kohya;
  else if (prefixed)
    place.dialect = LoraDialect::comfy;
  return place;
}

}  // namespace tritium
