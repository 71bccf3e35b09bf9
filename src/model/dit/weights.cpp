#include "model/dit/weights.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

class Declarer {
 public:
  Declarer(ParamLoader& loader, const DitConfig& config) : loader_(loader), c_(config) {}

  // Everything but the main blocks.
  void outside(DitWeights& w) {
    w.video_in = float_linear("video_patch_proj", c_.hidden, c_.video_features);
    w.audio_in = float_linear("audio_patch_proj", c_.hidden, c_.audio_features);
    w.text_in = linear("condition_proj", c_.hidden, c_.text_dim);
    if (c_.pruned()) {
      loader_.require("adaln_t_table", {c_.curve_points, c_.time_dim});
    } else {
      w.time_in = float_linear("time_embedder.proj_in", c_.time_hidden, c_.time_input);
      w.time_out = float_linear("time_embedder.proj_out", c_.time_dim, c_.time_hidden);
    }
    for (int i = 0; i < c_.refiner_layers; ++i) w.refiner.push_back(block(fmt::format("token_refiner.blocks.{}.", i)));
    w.refiner_norm = vector("token_refiner.final_norm.weight", c_.hidden);
    w.final_norm = vector("final_layer.norm.weight", c_.hidden);
    w.final_modulation = modulation("final_layer.adaln_proj.linear", 2 * c_.hidden, c_.time_dim);
    w.video_out = float_linear("final_layer.video_out", c_.video_features, c_.hidden);
    w.audio_out = float_linear("final_layer.audio_out", c_.audio_features, c_.hidden);
  }

  void blocks(DitWeights& w, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      w.blocks.push_back(main_block(i));
      w.blocks.back().modulation = block_modulation(i);
    }
  }
  DitBlockWeights main_block(int i) { return block(fmt::format("blocks.{}.", i)); }
  ops::Linear block_modulation(int i) { return modulation(fmt::format("blocks.{}.adaln_proj.linear", i), 18 * c_.hidden, c_.time_dim); }

 private:
  ggml_tensor* vector(const std::string& name, std::int64_t size) { return loader_.tensor(name, {size}); }
  ops::Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.matrix(name + ".weight", out, in), vector(name + ".bias", out)};
  }

  // Spec/weights.md §5: these are small, and an error of theirs reaches every row.
  ops::Linear float_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.float_matrix(name + ".weight", out, in), vector(name + ".bias", out)};
  }
  // That of a pruned model is narrow. The others see few rows: integers would save no time, and their error would reach every row.
  ops::Linear modulation(const std::string& name, std::int64_t out, std::int64_t in) {
    if (c_.pruned()) return float_linear(name, out, in);
    ops::Linear layer = linear(name, out, in);
    if (layer.weight.product == MatrixPrecision::int8) layer.weight.product = MatrixPrecision::bf16;
    return layer;
  }

  DitBlockWeights block(const std::string& p) {
    DitBlockWeights b;
    b.norm1 = vector(p + "norm1.weight", c_.hidden);
    b.norm2 = vector(p + "norm2.weight", c_.hidden);
    b.q_norm = vector(p + "attn.q_norm.weight", c_.head_dim);
    b.k_norm = vector(p + "attn.k_norm.weight", c_.head_dim);
    b.qkv.weight = loader_.matrix(p + "attn.qkv_proj.weight", 3 * c_.inner(), c_.hidden);
    b.out.weight = loader_.matrix(p + "attn.out_proj.weight", c_.hidden, c_.inner());
    b.fc1.weight = loader_.matrix(p + "mlp.fc1.weight", 2 * c_.ffn, c_.hidden);
    b.fc2.weight = loader_.matrix(p + "mlp.fc2.weight", c_.hidden, c_.ffn);
    return b;
  }

  ParamLoader& loader_;
  const DitConfig& c_;
};

constexpr const char* kPart = "diffusion transformer";
constexpr std::size_t kBlockParams = 64;  // tensors of a block, with what its matrices have beside them
constexpr int kStreamReaders = 2;         // beside a computation

// A unit in memory.
struct LoadedBlock {
  DitBlockWeights weights;
  TensorPool pool{0};
};
struct LoadedModulation {
  ops::Linear layer;
  TensorPool pool{0};
};

// The blocks, or their modulation layers, as units of a store.
template <class Loaded, class Declare>
Result<BlockUnits> units(const DitShare& share, int first, const std::shared_ptr<const WeightPart>& part, const DitConfig& config,
                         MatrixPolicy policy, const char* what, Declare declare) {
  BlockUnits out;
  out.what = what;
  std::uint64_t bytes = 0;
  for (int i = first; i < first + share.blocks; ++i) {
    ParamLoader loader(*part, kPart, policy, kBlockParams);
    declare(Declarer(loader, config), i);
    TRITIUM_TRY(loader.check());
    out.sizes.push_back({loader.slot_bytes(*share.device), loader.table_bytes()});
    bytes += out.sizes.back().slot_bytes;
  }
  // A file that the system can keep in its own memory is read faster the next time.
  const ParamLoader::Refill how{kStreamReaders, bytes > host_memory().available / 2};
  out.load = [part, config, policy, how, declare, first](int i, const DeviceBuffer& slot,
                                                         const CancelToken& cancel) -> Result<std::shared_ptr<const void>> {
    ParamLoader loader(*part, kPart, policy, kBlockParams);
    auto loaded = std::make_shared<Loaded>(Loaded{declare(Declarer(loader, config), first + i), TensorPool(0)});
    TRITIUM_TRY_ASSIGN(loaded->pool, loader.load_into(slot, how, &cancel));
    return std::shared_ptr<const void>(std::move(loaded));
  };
  return out;
}

Result<BlockUnits> block_units(const DitShare& share, int first, const std::shared_ptr<const WeightPart>& part, const DitConfig& config,
                               MatrixPolicy policy) {
  return units<LoadedBlock>(share, first, part, config, policy, "blocks of the diffusion transformer",
                            [](Declarer declarer, int i) { return declarer.main_block(i); });
}

Result<BlockUnits> modulation_units(const DitShare& share, int first, const std::shared_ptr<const WeightPart>& part,
                                    const DitConfig& config, MatrixPolicy policy) {
  return units<LoadedModulation>(share, first, part, config, policy, "modulation layers of the diffusion transformer",
                                 [](Declarer declarer, int i) { return declarer.block_modulation(i); });
}

std::uint64_t outside_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy) {
  ParamLoader loader(part, kPart, policy);
  DitWeights ignored;
  Declarer(loader, config).outside(ignored);
  return loader.bytes();
}

// Loads one share after the other.
class ShareLoader {
 public:
  ShareLoader(const std::shared_ptr<const WeightPart>& part, const DitConfig& config, MatrixPolicy policy)
      : part_(part), config_(config), policy_(policy) {}

  Result<void> load(const DitShare& share, const CancelToken* cancel, const LoadProgress& progress) {
    const bool with_outside = weights_.shards.empty();
    if (!with_outside) policy_.form = form_for(*share.device);
    ParamLoader loader(*part_, kPart, policy_);
    if (with_outside) Declarer(loader, config_).outside(weights_);
    const std::uint64_t outside = loader.bytes();
    ParamLoader shapes(*part_, kPart, policy_);
    DitWeights measured;
    Declarer(shapes, config_).blocks(measured, first_, share.blocks);
    DitShard shard{share.device, first_, share.blocks, TensorPool(0), TensorPool(0), nullptr, nullptr};
    if (share.budget.holds(outside + shapes.bytes())) {
      Declarer(loader, config_).blocks(weights_, first_, share.blocks);
    } else {
      TRITIUM_TRY(shapes.check());
      TRITIUM_TRY(open_stores(share, outside, shard));
      std::move(measured.blocks.begin(), measured.blocks.end(), std::back_inserter(weights_.blocks));
      shard.shapes = shapes.declared();
    }
    TRITIUM_TRY_ASSIGN(shard.pool, loader.load(*share.device, cancel, progress));
    weights_.shards.push_back(std::move(shard));
    first_ += share.blocks;
    return {};
  }

  [[nodiscard]] int blocks() const { return first_; }
  DitWeights take() { return std::move(weights_); }

 private:
  // What does not fit is streamed: the modulation layers, which are needed once a request, through as few slots as can be.
  Result<void> open_stores(const DitShare& share, std::uint64_t outside, DitShard& shard) const {
    TRITIUM_TRY_ASSIGN(BlockUnits blocks, block_units(share, first_, part_, config_, policy_));
    TRITIUM_TRY_ASSIGN(BlockUnits modulations, modulation_units(share, first_, part_, config_, policy_));
    const std::uint64_t block = BlockStore::least_bytes(blocks.sizes), modulation = BlockStore::least_bytes(modulations.sizes),
                        least = outside + block + modulation, budget = share.budget.resident_bytes;
    if (budget < least)
      return Error{ErrorCode::does_not_fit,
                   fmt::format("the diffusion transformer needs at least {} on '{}' with one block at a time, the budget leaves {}",
                               format_bytes(least), share.device->info().name, format_bytes(budget)),
                   "memory-budget", "give more memory or choose a smaller weight format"};
    const bool ahead = budget >= outside + 2 * (block + modulation);
    const std::uint64_t for_modulation = (ahead ? 2 : 1) * modulation;
    TRITIUM_TRY_ASSIGN(shard.modulation_store, BlockStore::create(*share.device, std::move(modulations), for_modulation));
    TRITIUM_TRY_ASSIGN(shard.block_store, BlockStore::create(*share.device, std::move(blocks), budget - outside - for_modulation));
    return {};
  }

  const std::shared_ptr<const WeightPart>& part_;
  const DitConfig& config_;
  MatrixPolicy policy_;
  DitWeights weights_;
  int first_ = 0;
};

// The streamed layer with the adapters that its place carries. A bias without memory is only a shape, one with memory an adapter's.
ops::Linear with_adapters(ops::Linear layer, const ops::Linear& place) {
  layer.lora_down = place.lora_down;
  layer.lora_up = place.lora_up;
  if (place.bias != nullptr && place.bias->data != nullptr) layer.bias = place.bias;
  return layer;
}

}  // namespace

const DitShard& DitWeights::shard_of(int block) const {
  return *std::find_if(shards.begin(), shards.end(), [block](const DitShard& s) { return block < s.first + s.blocks; });
}

Result<PinnedDitBlock> pin_block(const DitWeights& weights, int block, const CancelToken* cancel) {
  const DitBlockWeights& place = weights.blocks[static_cast<std::size_t>(block)];
  const DitShard& shard = weights.shard_of(block);
  if (shard.block_store == nullptr) return PinnedDitBlock{place, {}};
  PinnedDitBlock out;
  TRITIUM_TRY_ASSIGN(out.pin, shard.block_store->pin(block - shard.first, cancel));
  out.weights = out.pin.as<LoadedBlock>().weights;
  out.weights.qkv = with_adapters(out.weights.qkv, place.qkv);
  out.weights.out = with_adapters(out.weights.out, place.out);
  out.weights.fc1 = with_adapters(out.weights.fc1, place.fc1);
  out.weights.fc2 = with_adapters(out.weights.fc2, place.fc2);
  return out;
}

Result<PinnedDitModulation> pin_modulation(const DitWeights& weights, int block, const CancelToken* cancel) {
  const ops::Linear& place = weights.blocks[static_cast<std::size_t>(block)].modulation;
  const DitShard& shard = weights.shard_of(block);
  if (shard.modulation_store == nullptr) return PinnedDitModulation{place, {}};
  PinnedDitModulation out;
  TRITIUM_TRY_ASSIGN(out.pin, shard.modulation_store->pin(block - shard.first, cancel));
  out.layer = with_adapters(out.pin.as<LoadedModulation>().layer, place);
  return out;
}

Result<DitWeights> load_dit_weights(std::span<const DitShare> shares, const std::shared_ptr<const WeightPart>& part,
                                    const DitConfig& config, MatrixPolicy policy, const CancelToken* cancel, const LoadProgress& progress) {
  int blocks = 0;
  for (const DitShare& share : shares) blocks += share.blocks;
  if (blocks != config.layers)
    return Error{ErrorCode::failure, fmt::format("{} of {} blocks have a place", blocks, config.layers), "device", ""};
  ShareLoader loader(part, config, policy);
  for (const DitShare& share : shares) {
    // Shares count by their blocks.
    const double before = loader.blocks(), whole = std::max(blocks, 1);
    TRITIUM_TRY(loader.load(share, cancel, [&](std::uint64_t done, std::uint64_t total) {
      if (!progress) return;
      const double part_done = static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(1, total));
      progress(static_cast<std::uint64_t>(1e6 * (before + share.blocks * part_done) / whole), 1000000);
    }));
  }
  DitWeights weights = loader.take();
  if (config.pruned()) { TRITIUM_TRY_ASSIGN(weights.curve, part->read_f32("adaln_t_table")); }
  return weights;
}

Result<DitResidency> dit_residency(Device& device, const std::shared_ptr<const WeightPart>& part, const DitConfig& config,
                                   MatrixPolicy policy) {
  const DitShare whole{&device, config.layers, {}};
  TRITIUM_TRY_ASSIGN(const BlockUnits blocks, block_units(whole, 0, part, config, policy));
  TRITIUM_TRY_ASSIGN(const BlockUnits modulations, modulation_units(whole, 0, part, config, policy));
  TRITIUM_TRY_ASSIGN(const std::uint64_t all, dit_weight_bytes(*part, config, policy));
  return DitResidency{
      all, outside_bytes(*part, config, policy) + BlockStore::least_bytes(blocks.sizes) + BlockStore::least_bytes(modulations.sizes)};
}

std::vector<std::uint64_t> dit_block_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < config.layers; ++i) {
    ParamLoader loader(part, kPart, policy, kBlockParams);
    DitWeights ignored;
    Declarer(loader, config).blocks(ignored, i, 1);
    out.push_back(loader.bytes());
  }
  return out;
}

Result<std::uint64_t> dit_weight_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy) {
  ParamLoader loader(part, kPart, policy);
  DitWeights ignored;
  Declarer(loader, config).outside(ignored);
  Declarer(loader, config).blocks(ignored, 0, config.layers);
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

}  // namespace tritium
