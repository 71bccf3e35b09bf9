#include "model/vision/weights.h"

#include "base/try.h"

#include <fmt/format.h>

namespace tritium {
namespace {

constexpr const char* kPrefix = "model.visual.";

// A clearer answer than a list of missing tensors.
Result<void> expect_tower(const WeightPart& part) {
  if (part.has(std::string(kPrefix) + "patch_embed.proj.weight")) return {};
  return Error{ErrorCode::model,
               fmt::format("this text encoder has no vision tower: no tensor '{}patch_embed.proj.weight' in '{}'", kPrefix, part.where()),
               "", "pictures and reference videos need the complete text encoder"};
}

class Declaration {
 public:
  Declaration(ParamLoader& loader, const VisionConfig& config) : loader_(loader), c_(config) {}

  VisionWeights everything() {
    VisionWeights out;
    const std::int64_t side = c_.patch.side;
    out.patch_embed.weight =
        loader_.matrix(prefix_ + "patch_embed.proj.weight", c_.hidden, c_.patch.features(), {c_.hidden, 3, c_.patch.frames, side, side});
    out.patch_embed.bias = loader_.tensor(prefix_ + "patch_embed.proj.bias", {c_.hidden});
    out.position_table = loader_.tensor(prefix_ + "pos_embed.weight", {c_.table_side * c_.table_side, c_.hidden});
    for (int i = 0; i < c_.depth; ++i) out.blocks.push_back(block(fmt::format("blocks.{}.", i)));
    out.merger = merger("merger.", false);
    for (std::size_t i = 0; i < c_.deepstack_blocks.size(); ++i)
      out.deepstack.push_back(merger(fmt::format("deepstack_merger_list.{}.", i), true));
    return out;
  }

 private:
  VisionNorm norm(const std::string& name, std::int64_t width) {
    return {loader_.tensor(prefix_ + name + ".weight", {width}), loader_.tensor(prefix_ + name + ".bias", {width})};
  }
  ops::Linear linear(const std::string& name, std::int64_t out, std::int64_t in) {
    return {loader_.matrix(prefix_ + name + ".weight", out, in), loader_.tensor(prefix_ + name + ".bias", {out})};
  }
  VisionBlockWeights block(const std::string& p) {
    VisionBlockWeights out;
    out.norm1 = norm(p + "norm1", c_.hidden);
    out.norm2 = norm(p + "norm2", c_.hidden);
    out.qkv = linear(p + "attn.qkv", 3 * c_.hidden, c_.hidden);
    out.proj = linear(p + "attn.proj", c_.hidden, c_.hidden);
    out.fc1 = linear(p + "mlp.linear_fc1", c_.ffn, c_.hidden);
    out.fc2 = linear(p + "mlp.linear_fc2", c_.hidden, c_.ffn);
    return out;
  }
  VisionMergerWeights merger(const std::string& p, bool norm_after_joining) {
    const std::int64_t joined = c_.hidden * c_.patch.group();
    VisionMergerWeights out;
    out.norm_after_joining = norm_after_joining;
    out.norm = norm(p + "norm", norm_after_joining ? joined : c_.hidden);
    out.fc1 = linear(p + "linear_fc1", joined, joined);
    out.fc2 = linear(p + "linear_fc2", c_.out_hidden, joined);
    return out;
  }

  ParamLoader& loader_;
  const VisionConfig& c_;
  const std::string prefix_ = kPrefix;
};

}  // namespace

Result<VisionWeights> load_vision_weights(Device& device, const WeightPart& part, const VisionConfig& config, MatrixPolicy policy,
                                          const CancelToken* cancel, const LoadProgress& progress) {
  TRITIUM_TRY(expect_tower(part));
  ParamLoader loader(part, "vision tower", policy);
  VisionWeights weights = Declaration(loader, config).everything();
  TRITIUM_TRY_ASSIGN(weights.pool, loader.load(device, cancel, progress));
  return weights;
}

Result<std::uint64_t> vision_weight_bytes(const WeightPart& part, const VisionConfig& config, MatrixPolicy policy) {
  TRITIUM_TRY(expect_tower(part));
  ParamLoader loader(part, "vision tower", policy);
  Declaration(loader, config).everything();
  TRITIUM_TRY(loader.check());
  return loader.bytes();
}

}  // namespace tritium
