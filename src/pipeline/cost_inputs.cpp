#include "pipeline/cost_inputs.h"

#include <algorithm>

namespace tritium {
namespace {

// 2·weights per position of every 3x3x3 convolution; `frames` are those a clip really sees.
double video_encode_flops(const video_vae::VideoVaeConfig& c, int height, int width, int frames) {
  double flops = 0, h = height, w = width, t = frames;
  double in = static_cast<double>(c.channels) * c.channel_factors.front();
  flops += 2 * 27 * 3 * in * h * w * t;
  for (std::size_t level = 0; level < c.channel_factors.size(); ++level) {
    const double out = static_cast<double>(c.channels) * c.channel_factors[level];
    for (int block = 0; block < c.residual_blocks; ++block) {
      flops += 2 * 27 * (in * out + out * out) * h * w * t;
      in = out;
    }
    h /= c.space_down[level];
    w /= c.space_down[level];
    t /= c.time_down[level];
    if (c.space_down[level] * c.time_down[level] > 1) flops += 2 * 27 * out * out * h * w * t;
  }
  // Tiles overlap by at least the minimum each way.
  const auto covered = [&](int pixels) {
    const auto tiles = c.tiles(pixels / c.spatial_ratio());
    return static_cast<double>(tiles.count()) * tiles.tile / tiles.length;
  };
  return flops * covered(height) * covered(width);
}

double vision_flops(const VisionConfig& c, const PatchGrid& grid) {
  const double per_patch = static_cast<double>(c.depth) * 2 * static_cast<double>(c.hidden) * static_cast<double>(4 * c.hidden + 2 * c.ffn);
  const double frame = static_cast<double>(grid.h * grid.w);
  return static_cast<double>(grid.t) *
         (frame * per_patch + static_cast<double>(c.depth) * 4 * frame * frame * static_cast<double>(c.hidden));
}

}  // namespace

StageCost inputs_cost(const Inputs& inputs, const PromptInputs& prompt, const ModelInfo& model) {
  StageCost cost;
  const auto video = [&](const std::vector<Picture>& frames, bool moving) {
    const Picture& first = frames.front();
    cost.flops += video_encode_flops(model.video_vae_config, first.height, first.width, moving ? static_cast<int>(frames.size()) : 1);
    cost.working_bytes =
        std::max(cost.working_bytes, video_vae::VideoEncoder::working_bytes(model.video_vae_config, first.height, first.width, moving));
  };
  for (const Picture& picture : inputs.keyframes) video({picture}, false);
  for (const InputReference& reference : inputs.references)
    if (!reference.frames.empty()) video(reference.frames, reference.kind == ReferenceInput::Kind::video);
  if (!inputs.clip.empty()) video(inputs.clip, true);
  const auto setup = prompt.images.empty() && prompt.videos.empty() ? Result<VisionSetup>(Error{}) : read_vision_setup(model);
  if (!setup.ok()) return cost;
  for (const auto* group : {&prompt.images, &prompt.videos})
    for (const PatchRows& rows : *group) {
      cost.flops += vision_flops(setup->config, rows.grid);
      cost.working_bytes = std::max(cost.working_bytes, VisionTower::working_bytes(setup->config, rows.grid));
    }
  return cost;
}

}  // namespace tritium
