#include "pipeline/fallbacks.h"

#include "base/try.h"
#include "pipeline/model_config.h"
#include "sampler/latents.h"

namespace tritium {
namespace {

constexpr int kTokens = 8, kLatentFrames = 2, kLatentSide = 4, kAudioLatents = 4;

Result<void> place_text(Device& device, const ModelInfo& m, MatrixPolicy policy) {
  TRITIUM_TRY_ASSIGN(const TextModel model, TextModel::load(device, m.text, m.text_config, policy));
  const std::vector<std::int32_t> ids(kTokens, 0);
  std::vector<std::array<std::int32_t, 3>> positions;
  for (std::int32_t i = 0; i < kTokens; ++i) positions.push_back({i, i, i});
  TRITIUM_TRY_ASSIGN(const std::vector<float> rows, model.encode(ids, positions));
  return {};
}

// With a keyframe and a reference sound, so that rows of conditions are projected too.
Result<void> place_dit(Device& device, const ModelInfo& m, MatrixPolicy policy) {
  TRITIUM_TRY_ASSIGN(const auto dit, Dit::load(device, m.dit, m.dit_config, policy));
  const VideoLatentShape video{m.video_vae_config.latent_channels, kLatentFrames, kLatentSide, kLatentSide};
  PackingRequest request{std::vector<Modality>(kTokens, Modality::text), video, kAudioLatents, {0}, {}};
  TRITIUM_TRY_ASSIGN(PackedLayout layout, make_layout(request));
  const DitConfig& c = m.dit_config;
  const auto rows = [](std::int64_t count, std::int64_t width) { return std::vector<float>(static_cast<std::size_t>(count * width)); };
  std::int64_t visual = 0;
  for (const Segment& segment : layout.segments) visual += segment.role == RowRole::keyframe ? segment.rows : 0;
  TRITIUM_TRY_ASSIGN(RowTimesteps step, assign_timesteps(layout, 0.5f, 0.5f));
  const DitRows target{rows(layout.target_video().rows, c.video_features), rows(layout.target_audio().rows, c.audio_features)};
  TRITIUM_TRY_ASSIGN(DitRun run, DitRun::begin(*dit, layout, rows(kTokens, c.text_dim), {rows(visual, c.video_features), {}}, {step}));
  TRITIUM_TRY(run.keep_residual());
  TRITIUM_TRY_ASSIGN(const DitRows velocity, run.evaluate(0, target));
  TRITIUM_TRY_ASSIGN(const DitRows again, run.evaluate_with_residual(0, target));
  return {};
}

Result<void> place_video_decoder(Device& device, const ModelInfo& m, MatrixPolicy policy) {
  TRITIUM_TRY_ASSIGN(auto decoder, video_vae::VideoDecoder::load(device, *m.video_vae, m.video_vae_config, policy));
  constexpr std::size_t kPositions = std::size_t{kLatentFrames} * kLatentSide * kLatentSide;
  const std::vector<float> latents(kPositions * static_cast<std::size_t>(m.video_vae_config.latent_channels));
  return decoder.decode({latents, kLatentFrames, kLatentSide, kLatentSide}, [](int, std::span<const float>) -> Result<void> { return {}; });
}

Result<void> place_audio_decoder(Device& device, const ModelInfo& m) {
  TRITIUM_TRY_ASSIGN(const auto decoder, audio_vae::AudioDecoder::load(device, *m.audio_vae, m.audio_vae_config));
  const std::vector<float> latents(std::size_t{2} * kAudioLatents * static_cast<std::size_t>(m.audio_vae_config.latent_channels));
  TRITIUM_TRY_ASSIGN(const auto sound, decoder.decode({latents, kAudioLatents}));
  return {};
}

Result<void> place_vision(Device& device, const ModelInfo& m, MatrixPolicy policy) {
  TRITIUM_TRY_ASSIGN(const VisionSetup setup, read_vision_setup(m));
  TRITIUM_TRY_ASSIGN(const VisionTower tower, VisionTower::load(device, *m.text, setup.config, policy));
  const std::int64_t side = 2 * setup.config.patch.merge;
  const std::vector<PatchGrid> grids{{1, side, side}};
  const std::vector<float> patches(static_cast<std::size_t>(side * side * setup.config.patch.features()));
  TRITIUM_TRY_ASSIGN(const VisionRows rows, tower.encode(VisionModality::image, patches, grids));
  return {};
}

// A video of two steps, so that frames are kept between them.
Result<void> place_video_encoder(Device& device, const ModelInfo& m) {
  TRITIUM_TRY_ASSIGN(const auto encoder, video_vae::VideoEncoder::load(device, *m.video_vae, m.video_vae_config));
  const int side = kLatentSide * m.video_vae_config.spatial_ratio(), frames = 22;
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(frames) * static_cast<std::size_t>(side * side) * 3);
  TRITIUM_TRY_ASSIGN(const auto moments,
                     encoder.video_moments(video_vae::frames_in_memory(pixels, frames, side, side), video_vae::FrameRule::every_frame));
  return {};
}

Result<void> place_audio_encoder(Device& device, const ModelInfo& m) {
  TRITIUM_TRY_ASSIGN(const auto encoder, audio_vae::AudioEncoder::load(device, *m.audio_vae, m.audio_vae_config));
  const std::vector<float> sound(static_cast<std::size_t>(kAudioLatents * m.audio_vae_config.samples_per_latent()));
  TRITIUM_TRY_ASSIGN(const auto latents, encoder.encode(sound, sound));
  return {};
}

Result<void> place_part(Device& device, const ModelInfo& model, Part part, MatrixPolicy policy) {
  switch (part) {
    case Part::text:
      return place_text(device, model, policy);
    case Part::dit:
      return place_dit(device, model, policy);
    case Part::video_decoder:
      return place_video_decoder(device, model, policy);
    case Part::audio_decoder:
      return place_audio_decoder(device, model);
    case Part::vision:
      return place_vision(device, model, policy);
    case Part::video_encoder:
      return place_video_encoder(device, model);
    case Part::audio_encoder:
      return place_audio_encoder(device, model);
  }
  return {};
}

}  // namespace

Result<std::vector<UnsupportedOp>> part_fallbacks(const ModelInfo& model, Part part, const std::string& name, const std::string& compute) {
  TRITIUM_TRY_ASSIGN(const auto device, Device::open(name));
  if (device->is_cpu()) return std::vector<UnsupportedOp>{};
  device->set_dry(true);
  TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, part_weights(model, part, compute, MatrixForm::blocks));
  TRITIUM_TRY(place_part(*device, model, part, {weights.precision, MatrixForm::blocks}));
  return device->fallbacks();
}

}  // namespace tritium
