#include "model/dit/lora.h"

#include "base/system.h"
#include "base/try.h"
#include "weights/time_network.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

using Rows = LoraTarget::Rows;

// A layer, and where it is computed.
struct LayerPlace {
  ops::Linear* layer;
  Device* device;
};

std::map<std::string, LayerPlace> layers_by_name(DitWeights& w) {
  Device* first = w.shards.front().device;
  std::map<std::string, LayerPlace> out{
      {"video_patch_proj", {&w.video_in, first}},       {"audio_patch_proj", {&w.audio_in, first}},
      {"condition_proj", {&w.text_in, first}},          {"time_embedder.proj_in", {&w.time_in, first}},
      {"time_embedder.proj_out", {&w.time_out, first}}, {"final_layer.adaln_proj.linear", {&w.final_modulation, first}},
      {"final_layer.video_out", {&w.video_out, first}}, {"final_layer.audio_out", {&w.audio_out, first}}};
  const auto add = [&out](DitBlockWeights& block, const std::string& prefix, Device* device) {
    out[prefix + "attn.qkv_proj"] = {&block.qkv, device};
    out[prefix + "attn.out_proj"] = {&block.out, device};
    out[prefix + "mlp.fc1"] = {&block.fc1, device};
    out[prefix + "mlp.fc2"] = {&block.fc2, device};
    out[prefix + "adaln_proj.linear"] = {&block.modulation, device};
  };
  for (std::size_t i = 0; i < w.refiner.size(); ++i) add(w.refiner[i], fmt::format("token_refiner.blocks.{}.", i), first);
  for (std::size_t i = 0; i < w.blocks.size(); ++i) add(w.blocks[i], fmt::format("blocks.{}.", i), w.shard_of(static_cast<int>(i)).device);
  return out;
}

// Everything that several LoRAs add to one layer.
struct LayerChange {
  LoraTarget target;
  ops::Linear* layer = nullptr;
  Device* device = nullptr;
  struct Source {
    const LoraUse* use;
    const LoraAdapter* adapter;
  };
  std::vector<Source> sources;
  std::int64_t rank = 0;
  bool shifts_bias = false;
  ggml_tensor *down = nullptr, *up = nullptr, *bias = nullptr;
};

Result<std::vector<LayerChange>> collect(Dit& dit, std::span<const LoraUse> loras) {
  const auto layers = layers_by_name(dit.change_weights());
  std::map<std::string, LayerChange> changes;
  for (const LoraUse& use : loras) {
    if (use.strength == 0) continue;
    const AdalnBasis* basis = use.lora->basis.get();
    for (const LoraAdapter& adapter : use.lora->adapters) {
      const LoraTarget& target = use.lora->targets[adapter.target];
      const auto layer = layers.find(target.name);
      if (layer == layers.end() || layer->second.layer->weight.values == nullptr || layer->second.layer->weight.in() != target.in ||
          layer->second.layer->weight.out() != target.out)
        return Error{ErrorCode::failure, fmt::format("the model has no layer '{}' of [{}, {}]", target.name, target.out, target.in), "lora",
                     ""};
      if (layer->second.layer->lora_down != nullptr)
        return Error{ErrorCode::failure, fmt::format("layer '{}' has adapters already", target.name), "lora", ""};
      LayerChange& change = changes[target.name];
      change.target = target;
      change.layer = layer->second.layer;
      change.device = layer->second.device;
      change.rank += adapter.rank;
      change.sources.push_back({&use, &adapter});
      change.shifts_bias |= basis != nullptr && !basis->mean.empty() && adapter.pieces.front().projected;
    }
  }
  std::vector<LayerChange> out;
  for (auto& [name, change] : changes) out.push_back(std::move(change));
  return out;
}

// The model's own, also where it is not in memory.
Result<std::vector<float>> own_bias(const Dit& dit, const LayerChange& change) {
  if (change.layer->bias->data != nullptr) return download(change.layer->bias);
  return dit.part().read_f32(change.target.name + ".bias");
}

Result<void> fill(const Dit& dit, const LayerChange& change) {
  std::vector<float> down, up(static_cast<std::size_t>(change.target.out * change.rank), 0.0f), bias;
  if (change.bias != nullptr) { TRITIUM_TRY_ASSIGN(bias, own_bias(dit, change)); }
  std::int64_t column = 0;
  for (const auto& [use, adapter] : change.sources) {
    TRITIUM_TRY_ASSIGN(const LoraFactors factors, read_factors(*use->lora, *adapter));
    down.insert(down.end(), factors.down.begin(), factors.down.end());
    for (std::int64_t row = 0; row < change.target.out; ++row)
      for (std::int64_t k = 0; k < adapter->rank; ++k)
        up[static_cast<std::size_t>(row * change.rank + column + k)] =
            static_cast<float>(use->strength * static_cast<double>(factors.up[static_cast<std::size_t>(row * adapter->rank + k)]));
    for (std::size_t i = 0; i < factors.bias.size(); ++i)
      bias[i] += static_cast<float>(use->strength * static_cast<double>(factors.bias[i]));
    column += adapter->rank;
  }
  upload(change.down, down);
  upload(change.up, up);
  if (change.bias != nullptr) upload(change.bias, bias);
  return {};
}

}  // namespace

std::vector<LoraTarget> dit_lora_targets(const DitConfig& c) {
  std::vector<LoraTarget> out;
  const auto plain = [&](const std::string& name, std::int64_t rows, std::int64_t in, Rows order = Rows::plain) {
    out.push_back({name, rows, in, order, 0, 0, false});
  };
  const auto modulation = [&](const std::string& name, std::int64_t rows) {
    out.push_back({name, rows, c.time_dim, Rows::plain, 0, 0, true});
  };
  const auto block = [&](const std::string& prefix) {
    out.push_back({prefix + "attn.qkv_proj", 3 * c.inner(), c.hidden, Rows::qkv, c.heads, c.head_dim, false});
    plain(prefix + "attn.out_proj", c.hidden, c.inner());
    plain(prefix + "mlp.fc1", 2 * c.ffn, c.hidden, Rows::gate_up);
    plain(prefix + "mlp.fc2", c.hidden, c.ffn);
  };
  for (int i = 0; i < c.layers; ++i) {
    block(fmt::format("blocks.{}.", i));
    modulation(fmt::format("blocks.{}.adaln_proj.linear", i), 18 * c.hidden);
  }
  for (int i = 0; i < c.refiner_layers; ++i) block(fmt::format("token_refiner.blocks.{}.", i));
  modulation("final_layer.adaln_proj.linear", 2 * c.hidden);
  plain("final_layer.video_out", c.video_features, c.hidden);
  plain("final_layer.audio_out", c.audio_features, c.hidden);
  plain("video_patch_proj", c.hidden, c.video_features);
  plain("audio_patch_proj", c.hidden, c.audio_features);
  plain("condition_proj", c.hidden, c.text_dim);
  if (!c.pruned()) {
    plain("time_embedder.proj_in", c.time_hidden, c.time_input);
    plain("time_embedder.proj_out", c.time_dim, c.time_hidden);
  }
  return out;
}

Result<std::shared_ptr<const AdalnBasis>> dit_adaln_basis(const WeightPart& model, const DitConfig& c, const Checkpoint* basis) {
  if (!c.pruned()) return std::shared_ptr<const AdalnBasis>();
  std::optional<AdalnBasis> found;
  TRITIUM_TRY_ASSIGN(found, read_adaln_basis(model.checkpoint()));
  if (!found && basis != nullptr) {
    TRITIUM_TRY_ASSIGN(found, read_adaln_basis(*basis));
    if (!found) {
      TRITIUM_TRY_ASSIGN(const auto network, read_time_network(*basis));
      if (!network)
        return Error{ErrorCode::model,
                     fmt::format("'{}' has neither 'adaln_basis' nor a time embedder", basis->files().front().path().string()),
                     "lora_basis", "give the full model that this one was pruned from"};
      TRITIUM_TRY_ASSIGN(const std::vector<float> table, model.read_f32("adaln_t_table"));
      TRITIUM_TRY_ASSIGN(const std::vector<double> curve, network->curve(equally_spaced(c.curve_points), usable_cpus(), nullptr));
      const std::vector<float> g(curve.begin(), curve.end());
      TRITIUM_TRY_ASSIGN(found, fit_adaln_basis(table, g, c.curve_points));
    }
  }
  if (!found) return std::shared_ptr<const AdalnBasis>();
  if (found->rank != c.time_dim)
    return Error{ErrorCode::model, fmt::format("it has rank {}, the model's curve table {}", found->rank, c.time_dim), "adaln_basis", ""};
  return std::make_shared<const AdalnBasis>(std::move(*found));
}

Result<DitAdapters> DitAdapters::attach(Dit& dit, std::span<const LoraUse> loras, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(std::vector<LayerChange> changes, collect(dit, loras));
  DitAdapters out;
  if (changes.empty()) return out;
  for (LayerChange& change : changes) {
    const LoraTarget& target = change.target;
    TensorPool& pool = out.pools_.try_emplace(change.device, 3 * changes.size()).first->second;
    change.down = pool.add(target.name + ".lora_down", GGML_TYPE_F32, {target.in, change.rank});
    change.up = pool.add(target.name + ".lora_up", GGML_TYPE_F32, {change.rank, target.out});
    if (change.shifts_bias && change.layer->bias != nullptr)
      change.bias = pool.add(target.name + ".lora_bias", GGML_TYPE_F32, {target.out});
  }
  for (auto& [device, pool] : out.pools_) TRITIUM_TRY(pool.allocate(*device, "the LoRA adapters", TensorPool::Contents::undefined));
  for (const LayerChange& change : changes) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("load"));
    TRITIUM_TRY(fill(dit, change));
  }
  out.dit_ = &dit;
  for (const LayerChange& change : changes) {
    out.changes_.push_back({change.layer, change.layer->bias});
    change.layer->lora_down = change.down;
    change.layer->lora_up = change.up;
    if (change.bias != nullptr) change.layer->bias = change.bias;
  }
  return out;
}

DitAdapters& DitAdapters::operator=(DitAdapters&& other) noexcept {
  if (this == &other) return *this;
  detach();
  dit_ = other.dit_;
  changes_ = std::exchange(other.changes_, {});
  pools_ = std::exchange(other.pools_, {});
  return *this;
}

std::uint64_t DitAdapters::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [device, pool] : pools_) sum += pool.bytes();
  return sum;
}

void DitAdapters::detach() {
  if (!changes_.empty()) (void)dit_->change_weights();
  for (const Change& change : changes_) {
    change.layer->lora_down = change.layer->lora_up = nullptr;
    change.layer->bias = change.bias;
  }
  changes_.clear();
  pools_.clear();
}

}  // namespace tritium
