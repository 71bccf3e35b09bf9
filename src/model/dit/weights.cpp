#include "model/dit/weights.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

class Declarer {
 public:
  Declarer(ParamLoader& loader, const DitConfig& config) : loader_(loader), c_(config) {}

  DitWeights all() {
    DitWeights w;
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
    for (int i = 0; i < c_.layers; ++i) {
      const std::string prefix = fmt::format("blocks.{}.", i);
      w.blocks.push_back(block(prefix));
      w.blocks.back().modulation = modulation(prefix + "adaln_proj.linear", 18 * c_.hidden, c_.time_dim);
    }
    w.refiner_norm = vector("token_refiner.final_norm.weight", c_.hidden);
    w.final_norm = vector("final_layer.norm.weight", c_.hidden);
    w.final_modulation = modulation("final_layer.adaln_proj.linear", 2 * c_.hidden, c_.time_dim);
    w.video_out = float_linear("final_layer.video_out", c_.video_features, c_.hidden);
    w.audio_out = float_linear("final_layer.audio_out", c_.audio_features, c_.hidden);
    return w;
  }

 private:
  ggml_tensor* vector(const std::string& name, std::int64_t size) { return loader_.tensor(name, {size}); }
  ops::Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.matrix(name + ".weight", out, in), vector(name + ".bias", out)};
  }

  // Spec/weights.md §5: these are small, and an error of theirs reaches every row.
  ops::Linear float_linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.float_matrix(name + ".weight", out, in), vector(name + ".bias", out)};
  }
  // That of a pruned model is narrow.
  ops::Linear modulation(const std::string& name, std::int64_t out, std::int64_t in) {
    return c_.pruned() ? float_linear(name, out, in) : linear(name, out, in);
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

}  // namespace

Result<DitWeights> load_dit_weights(Device& device, const WeightPart& part, const DitConfig& config, MatrixPolicy policy,
                                    const CancelToken* cancel, const LoadProgress& progress) {
  ParamLoader loader(part, kPart, policy);
  DitWeights weights = Declarer(loader, config).all();
  TRITIUM_TRY_ASSIGN(weights.pool, loader.load(device, cancel, progress));
  if (config.pruned()) { TRITIUM_TRY_ASSIGN(weights.curve, part.read_f32("adaln_t_table")); }
  return weights;
}

Result<std::uint64_t> dit_weight_bytes(const WeightPart& part, const DitConfig& config, MatrixPolicy policy) {
  ParamLoader loader(part, kPart, policy);
  Declarer(loader, config).all();
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

}  // namespace tritium
