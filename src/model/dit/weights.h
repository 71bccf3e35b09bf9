// The transformer's weights on a device, in one row order whatever the file's layout.
#pragma once

#include "device/params.h"
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

struct DitWeights {
  ops::Linear video_in, audio_in, text_in, time_in, time_out;
  std::vector<DitBlockWeights> refiner, blocks;
  ggml_tensor *refiner_norm = nullptr, *final_norm = nullptr;
  ops::Linear final_modulation, video_out, audio_out;
  std::vector<float> curve;  // pruned models: [points][time_dim]
  TensorPool pool{0};
};

// Errors: code model for names and shapes that do not fit the configuration or values that are not finite; does_not_fit.
Result<DitWeights> load_dit_weights(Device& device, const WeightPart& part, const DitConfig& config, MatrixPolicy policy,
                                    const CancelToken* cancel = nullptr, const LoadProgress& progress = {});

// Bytes on the device, after checking all names and shapes.
Result<std::uint64_t> dit_weight_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy);

}  // namespace tritium
