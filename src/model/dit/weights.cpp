#include "model/dit/weights.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

// Rows [heads][3][head_dim] -> [3][heads][head_dim] of a matrix with `width` columns (spec/dit.md §2.2).
std::vector<float> deinterleave_qkv(std::vector<float> rows, const DitConfig& c) {
  std::vector<float> out(rows.size());
  const auto width = static_cast<std::size_t>(c.hidden), head_dim = static_cast<std::size_t>(c.head_dim),
             heads = static_cast<std::size_t>(c.heads);
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t j = 0; j < 3; ++j) {
      const auto from = rows.begin() + static_cast<std::ptrdiff_t>((h * 3 + j) * head_dim * width);
      std::copy(from, from + static_cast<std::ptrdiff_t>(head_dim * width),
                out.begin() + static_cast<std::ptrdiff_t>((j * heads + h) * head_dim * width));
    }
  return out;
}

std::vector<float> swap_halves(std::vector<float> values) {
  std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values;
}

class Declarer {
 public:
  Declarer(ParamLoader& loader, const Checkpoint& checkpoint, DitLayout layout, const DitConfig& config)
      : loader_(loader), names_(checkpoint, layout), layout_(layout), c_(config) {}

  DitWeights all() {
    DitWeights w;
    w.video_in = linear("video_patch_proj", c_.hidden, c_.video_features);
    w.audio_in = linear("audio_patch_proj", c_.hidden, c_.audio_features);
    w.text_in = linear("condition_proj", c_.hidden, c_.text_dim);
    if (c_.pruned()) {
      loader_.require(names_("adaln_t_table"), {c_.curve_points, c_.time_dim});
    } else {
      w.time_in = linear("time_embedder.proj_in", c_.time_hidden, c_.time_input);
      w.time_out = linear("time_embedder.proj_out", c_.time_dim, c_.time_hidden);
    }
    for (int i = 0; i < c_.refiner_layers; ++i) w.refiner.push_back(block(fmt::format("token_refiner.blocks.{}.", i)));
    for (int i = 0; i < c_.layers; ++i) {
      const std::string prefix = fmt::format("blocks.{}.", i);
      w.blocks.push_back(block(prefix));
      w.blocks.back().modulation = linear(prefix + "adaln_proj.linear", 18 * c_.hidden, c_.time_dim);
    }
    w.refiner_norm = vector("token_refiner.final_norm.weight", c_.hidden);
    w.final_norm = vector("final_layer.norm.weight", c_.hidden);
    w.final_modulation = linear("final_layer.adaln_proj.linear", 2 * c_.hidden, c_.time_dim);
    w.video_out = linear("final_layer.video_out", c_.video_features, c_.hidden);
    w.audio_out = linear("final_layer.audio_out", c_.audio_features, c_.hidden);
    return w;
  }

 private:
  ggml_tensor* vector(const std::string& name, std::int64_t size) { return loader_.tensor(names_(name), {size}); }
  ops::Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.matrix(names_(name + ".weight"), {out, in}), vector(name + ".bias", out)};
  }

  DitBlockWeights block(const std::string& p) {
    DitBlockWeights b;
    b.norm1 = vector(p + "norm1.weight", c_.hidden);
    b.norm2 = vector(p + "norm2.weight", c_.hidden);
    b.q_norm = vector(p + "attn.q_norm.weight", c_.head_dim);
    b.k_norm = vector(p + "attn.k_norm.weight", c_.head_dim);
    b.qkv.weight = qkv(p);
    b.out.weight = loader_.matrix(names_(p + "attn.out_proj.weight"), {c_.hidden, c_.inner()});
    const std::vector<std::int64_t> fc1{2 * c_.ffn, c_.hidden};
    b.fc1.weight = loader_.matrix({{names_(p + "mlp.fc1.weight"), fc1}}, fc1,
                                  layout_ == DitLayout::diffusers ? swap_halves : ParamLoader::Transform{});
    b.fc2.weight = loader_.matrix(names_(p + "mlp.fc2.weight"), {c_.hidden, c_.ffn});
    return b;
  }

  ggml_tensor* qkv(const std::string& p) {
    const std::vector<std::int64_t> fused{3 * c_.inner(), c_.hidden}, single{c_.inner(), c_.hidden};
    switch (layout_) {
      case DitLayout::diffusers:
        return loader_.matrix(
            {{names_(p + "attn.q.weight"), single}, {names_(p + "attn.k.weight"), single}, {names_(p + "attn.v.weight"), single}}, fused,
            {});
      case DitLayout::interleaved:
        return loader_.matrix({{names_(p + "attn.qkv_proj.weight"), fused}}, fused,
                              [config = c_](std::vector<float> rows) { return deinterleave_qkv(std::move(rows), config); });
      case DitLayout::plain:
        break;
    }
    return loader_.matrix(names_(p + "attn.qkv_proj.weight"), fused);
  }

  ParamLoader& loader_;
  DitNames names_;
  DitLayout layout_;
  const DitConfig& c_;
};

constexpr const char* kPart = "diffusion transformer";

}  // namespace

Result<DitWeights> load_dit_weights(Device& device, const Checkpoint& checkpoint, DitLayout layout, const DitConfig& config,
                                    MatrixPrecision precision, const CancelToken* cancel, const LoadProgress& progress) {
  ParamLoader loader(checkpoint, kPart, precision);
  DitWeights weights = Declarer(loader, checkpoint, layout, config).all();
  TRITIUM_TRY_ASSIGN(weights.pool, loader.load(device, cancel, progress));
  if (config.pruned()) { TRITIUM_TRY_ASSIGN(weights.curve, checkpoint.read_f32(DitNames(checkpoint, layout)("adaln_t_table"))); }
  return weights;
}

Result<std::uint64_t> dit_weight_bytes(const Checkpoint& checkpoint, DitLayout layout, const DitConfig& config, MatrixPrecision precision) {
  ParamLoader loader(checkpoint, kPart, precision);
  Declarer(loader, checkpoint, layout, config).all();
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

}  // namespace tritium
