#include "weights/convert/lora_merge.h"

#include "base/try.h"
#include "weights/lora/contract.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

std::string_view without(std::string_view name, std::string_view end) { return name.substr(0, name.size() - end.size()); }

LoraTarget target_of(const std::string& layer, std::int64_t rows, std::int64_t columns, std::int64_t head_dim) {
  LoraTarget out;
  out.name = layer;
  out.out = rows;
  out.in = columns;
  out.modulation = layer.ends_with("adaln_proj.linear");
  if (layer.ends_with(".mlp.fc1")) out.rows = LoraTarget::Rows::gate_up;
  if (layer.ends_with(".attn.qkv_proj") && head_dim > 0 && rows % (3 * head_dim) == 0) {
    out.rows = LoraTarget::Rows::qkv;
    out.head_dim = head_dim;
    out.heads = rows / (3 * head_dim);
  }
  return out;
}

}  // namespace

std::vector<LoraTarget> lora_targets(const WeightPart& dit) {
  std::vector<LoraTarget> out;
  const auto take = [&](const std::string& layer) {
    const auto shape = dit.shape(layer + std::string(kWeight));
    if (!shape || shape->size() != 2) return false;
    std::int64_t head_dim = 0;
    if (layer.ends_with("qkv_proj"))
      if (const auto norm = dit.shape(layer.substr(0, layer.size() - std::string_view("qkv_proj").size()) + "q_norm.weight");
          norm && norm->size() == 1)
        head_dim = norm->front();
    out.push_back(target_of(layer, (*shape)[0], (*shape)[1], head_dim));
    return true;
  };
  for (const char* stack : {"blocks.", "token_refiner.blocks."})
    for (int n = 0; take(fmt::format("{}{}.attn.qkv_proj", stack, n)); ++n)
      for (const char* layer : {"attn.out_proj", "mlp.fc1", "mlp.fc2", "adaln_proj.linear"}) take(fmt::format("{}{}.{}", stack, n, layer));
  for (const char* layer : {"video_patch_proj", "audio_patch_proj", "condition_proj", "time_embedder.proj_in", "time_embedder.proj_out",
                            "final_layer.adaln_proj.linear", "final_layer.video_out", "final_layer.audio_out"})
    take(layer);
  return out;
}

// spec/dit.md §2.1.
std::vector<LoraTarget> released_lora_targets() {
  constexpr std::int64_t kHidden = 5376, kInner = 7168, kFfn = 14336, kHeadDim = 128, kTime = 2688;
  std::vector<LoraTarget> out;
  const auto block = [&](const std::string& name, bool modulated) {
    out.push_back(target_of(name + ".attn.qkv_proj", 3 * kInner, kHidden, kHeadDim));
    out.push_back(target_of(name + ".attn.out_proj", kHidden, kInner, 0));
    out.push_back(target_of(name + ".mlp.fc1", 2 * kFfn, kHidden, 0));
    out.push_back(target_of(name + ".mlp.fc2", kHidden, kFfn, 0));
    if (modulated) out.push_back(target_of(name + ".adaln_proj.linear", 18 * kHidden, kTime, 0));
  };
  for (int n = 0; n < 50; ++n) block(fmt::format("blocks.{}", n), true);
  for (int n = 0; n < 2; ++n) block(fmt::format("token_refiner.blocks.{}", n), false);
  out.push_back(target_of("video_patch_proj", kHidden, 96, 0));
  out.push_back(target_of("audio_patch_proj", kHidden, 32, 0));
  out.push_back(target_of("condition_proj", kHidden, 5120, 0));
  out.push_back(target_of("time_embedder.proj_in", kHidden, 256, 0));
  out.push_back(target_of("time_embedder.proj_out", kTime, kHidden, 0));
  out.push_back(target_of("final_layer.adaln_proj.linear", 2 * kHidden, kTime, 0));
  out.push_back(target_of("final_layer.video_out", 96, kHidden, 0));
  out.push_back(target_of("final_layer.audio_out", 32, kHidden, 0));
  return out;
}

Result<std::unique_ptr<LoraDelta>> LoraDelta::create(const std::vector<MergedLora>& loras, const WeightPart& dit,
                                                     std::vector<std::string>& notices, const CancelToken* cancel, bool force) {
  std::unique_ptr<LoraDelta> out(new LoraDelta);
  const std::vector<LoraTarget> targets = lora_targets(dit);
  const BaseMark base = base_mark(dit.checkpoint());
  TRITIUM_TRY_ASSIGN(auto basis, read_adaln_basis(dit.checkpoint()));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& merged : base.merged) all.push_back({{"file", merged}});
  std::string distilled;
  for (const MergedLora& lora : loras) {
    TRITIUM_TRY_ASSIGN(const auto file, LoraFile::open(lora.path));
    TRITIUM_TRY_ASSIGN(const auto contract, contract_of(*file));
    if (!force) TRITIUM_TRY(check_base(file->name(), contract.has_value(), base));
    if (!force && contract && !distilled.empty())
      return Error{ErrorCode::usage, fmt::format("'{}' and '{}' are both step-distilled", distilled, file->name()), "lora",
                   "merge one of them; --force does it all the same"};
    if (contract) distilled = file->name();
    LoraMatchOptions options;
    options.alpha = lora.alpha;
    if (contract) options.table_alpha = contract->alpha;
    if (basis) options.basis = std::make_shared<const AdalnBasis>(*basis);
    TRITIUM_TRY_ASSIGN(LoraMatch match, match_lora(file, targets, options));
    TRITIUM_TRY(drop_not_finite(match, cancel));
    for (std::string& line : lora_report_lines(match.report, file->name(), lora.strength)) notices.push_back(std::move(line));
    all.push_back({{"file", file->name()}, {"strength", lora.strength}, {"header_sha256", file->header_sha256()}});
    if (lora.alpha) all.back()["alpha"] = *lora.alpha;
    out->matches_.push_back(std::move(match));
    out->strengths_.push_back(lora.strength);
  }
  for (std::size_t i = 0; i < out->matches_.size(); ++i)
    for (const LoraAdapter& adapter : out->matches_[i].adapters) {
      const std::string& name = targets[adapter.target].name;
      out->layers_[name].push_back({i, &adapter});
      const bool projected =
          std::any_of(adapter.pieces.begin(), adapter.pieces.end(), [](const LoraPiece& piece) { return piece.projected; });
      if (projected && out->matches_[i].basis && !out->matches_[i].basis->mean.empty()) out->biases_[name] = true;
    }
  out->description_ = all.dump();
  return out;
}

bool LoraDelta::touches(const std::string& official) const {
  if (official.ends_with(kWeight)) return layers_.contains(std::string(without(official, kWeight)));
  return official.ends_with(kBias) && biases_.contains(std::string(without(official, kBias)));
}

Result<std::shared_ptr<const LoraDelta::Loaded>> LoraDelta::load(const std::string& layer, const std::vector<Part>& parts) const {
  const std::lock_guard lock(mutex_);
  if (loaded_ != nullptr && loaded_layer_ == layer) return loaded_;
  loaded_.reset();
  auto fresh = std::make_shared<Loaded>();
  for (const Part& part : parts) {
    TRITIUM_TRY_ASSIGN(LoraFactors factors, read_factors(matches_[part.lora], *part.adapter));
    const auto strength = static_cast<float>(strengths_[part.lora]);
    for (float& v : factors.up) v *= strength;
    for (float& v : factors.bias) v *= strength;
    const std::int64_t in = matches_[part.lora].targets[part.adapter->target].in;
    fresh->ranks.push_back(static_cast<std::int64_t>(factors.down.size()) / in);
    fresh->factors.push_back(std::move(factors));
  }
  loaded_layer_ = layer;
  loaded_ = fresh;
  return loaded_;
}

Result<void> LoraDelta::add(const std::string& official, std::int64_t first_row, std::int64_t columns, std::span<float> rows) const {
  const bool bias = official.ends_with(kBias);
  const std::string layer(without(official, bias ? kBias : kWeight));
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return {};
  TRITIUM_TRY_ASSIGN(const std::shared_ptr<const Loaded> loaded, load(layer, found->second));
  const auto width = static_cast<std::size_t>(columns), count = rows.size() / width, first = static_cast<std::size_t>(first_row);
  for (std::size_t p = 0; p < loaded->factors.size(); ++p) {
    const LoraFactors& f = loaded->factors[p];
    const auto rank = static_cast<std::size_t>(loaded->ranks[p]);
    if (bias) {
      for (std::size_t r = 0; r < count && !f.bias.empty(); ++r) rows[r] += f.bias[first + r];
      continue;
    }
    std::vector<float> sum(width);
    for (std::size_t r = 0; r < count; ++r) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (std::size_t j = 0; j < rank; ++j) {
        const float factor = f.up[(first + r) * rank + j];
        if (factor == 0) continue;
        const float* down = f.down.data() + j * width;
        for (std::size_t k = 0; k < width; ++k) sum[k] += factor * down[k];
      }
      for (std::size_t k = 0; k < width; ++k) rows[r * width + k] += sum[k];
    }
  }
  return {};
}

}  // namespace tritium
