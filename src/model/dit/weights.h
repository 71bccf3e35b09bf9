// The transformer's weights on a device, in one row order whatever the file's layout.
#pragma once

#include "device/params.h"
#include "device/residency/block_store.h"
#include "device/residency/part_budget.h"
#include "model/dit/config.h"
#include "ops/linear.h"

#include <memory>
#include <vector>

namespace tritium {

struct DitBlockWeights {
  ggml_tensor *norm1 = nullptr, *norm2 = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  ops::Linear qkv;       // rows q, k, v, each [heads, head_dim]
  ops::Linear out, fc1;  // fc1 rows: gate, then up
  ops::Linear fc2;
  ops::Linear modulation;  // not in refiner blocks
};

// Where blocks run: consecutive ones on each device, in their order, and what their weights may take there. Everything outside the blocks
// lies on the first device, within its budget.
struct DitShare {
  Device* device = nullptr;
  int blocks = 0;
  PartBudget budget;
};

// The blocks of one device. Streamed ones have no values of their own in DitWeights::blocks: these say what shapes they have, and carry
// adapters. pin_block() and pin_modulation() give both together.
struct DitShard {
  Device* device = nullptr;
  int first = 0, blocks = 0;
  TensorPool pool{0};                                         // what is resident
  TensorPool shapes{0};                                       // of streamed blocks
  std::unique_ptr<BlockStore> block_store, modulation_store;  // null: resident
};

struct DitWeights {
  ops::Linear video_in, audio_in, text_in, time_in, time_out;
  std::vector<DitBlockWeights> refiner, blocks;
  ggml_tensor *refiner_norm = nullptr, *final_norm = nullptr;
  ops::Linear final_modulation, video_out, audio_out;
  std::vector<float> curve;  // pruned models: [points][time_dim]
  std::vector<DitShard> shards;

  [[nodiscard]] const DitShard& shard_of(int block) const;
};

// The weights of a block in memory, for as long as the pin lives.
struct PinnedDitBlock {
  DitBlockWeights weights;  // all but the modulation layer
  BlockPin pin;
};
struct PinnedDitModulation {
  ops::Linear layer;
  BlockPin pin;
};
Result<PinnedDitBlock> pin_block(const DitWeights& weights, int block, const CancelToken* cancel);
Result<PinnedDitModulation> pin_modulation(const DitWeights& weights, int block, const CancelToken* cancel);

// What dit weights take on one device. `least`: what they run with at all.
struct DitResidency {
  std::uint64_t all = 0, least = 0;
};
Result<DitResidency> dit_residency(Device& device, const std::shared_ptr<const WeightPart>& part, const DitConfig& config,
                                   MatrixPolicy policy);

// Blocks that do not fit the budget of their share are streamed. Errors: code model for names and shapes that do not fit the configuration
// or values that are not finite; does_not_fit (need and have) below one block at a time; failure if the shares' blocks are not all blocks.
Result<DitWeights> load_dit_weights(std::span<const DitShare> shares, const std::shared_ptr<const WeightPart>& part,
                                    const DitConfig& config, MatrixPolicy policy, const CancelToken* cancel = nullptr,
                                    const LoadProgress& progress = {});

// Bytes of each block with its modulation layer. Tensors that are missing count nothing.
std::vector<std::uint64_t> dit_block_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy);

// Bytes on the device, after checking all names and shapes.
Result<std::uint64_t> dit_weight_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy);

}  // namespace tritium
