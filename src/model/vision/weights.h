// Tensors of the vision tower (spec/text.md §4 and §6).
#pragma once

#include "device/params.h"
#include "model/vision/vision_config.h"
#include "ops/linear.h"

namespace tritium {

struct VisionNorm {
  ggml_tensor *weight = nullptr, *bias = nullptr;
};

struct VisionBlockWeights {
  VisionNorm norm1, norm2;
  ops::Linear qkv, proj, fc1, fc2;
};

// Joins the merge x merge patches of a group to one token.
struct VisionMergerWeights {
  VisionNorm norm;  // over a patch, or over the joined group if `norm_after_joining`
  ops::Linear fc1, fc2;
  bool norm_after_joining = false;
};

struct VisionWeights {
  ops::Linear patch_embed;                // [features, hidden]
  ggml_tensor* position_table = nullptr;  // [hidden, table_side²] float32
  std::vector<VisionBlockWeights> blocks;
  VisionMergerWeights merger;
  std::vector<VisionMergerWeights> deepstack;  // one per set
  TensorPool pool{0};
};

// Found under the official names "model.visual.*", under those of single-file repacks, or behind any other prefix.
// Errors (code model): no vision tower in the file, tensors that are missing or misshapen.
Result<VisionWeights> load_vision_weights(Device& device, const WeightPart& part, const VisionConfig& config, MatrixPolicy policy,
                                          const CancelToken* cancel, const LoadProgress& progress);
// Bytes on the device, after the same checks.
Result<std::uint64_t> vision_weight_bytes(const WeightPart& part, const VisionConfig& config, MatrixPolicy policy);

}  // namespace tritium
