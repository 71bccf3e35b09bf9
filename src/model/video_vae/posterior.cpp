#include "model/video_vae/posterior.h"

#include "base/torch_generator.h"
#include "weights/dtype.h"

#include <algorithm>
#include <cmath>

namespace tritium::video_vae {
namespace {

constexpr std::uint64_t kNoiseSeed = 42;
constexpr float kLeastLogVariance = -30.0f, kGreatestLogVariance = 20.0f;

}  // namespace

std::vector<float> posterior_noise(std::size_t count) {
  std::vector<float> out(count);
  TorchGenerator(kNoiseSeed).normal(out);
  return out;
}

TokenGrid choose_latents(const TokenGrid& moments, Posterior posterior, int drawn_tokens) {
  TokenGrid out = moments;
  out.planes = moments.planes / 2;
  const std::size_t count = static_cast<std::size_t>(out.planes) * out.plane_values();
  out.values.resize(count);
  if (posterior == Posterior::mean) return out;
  const std::size_t plane = out.plane_values(), positions = plane / static_cast<std::size_t>(out.tokens);
  const std::size_t drawn_plane = static_cast<std::size_t>(drawn_tokens) * positions;
  const std::vector<float> noise = posterior_noise(static_cast<std::size_t>(out.planes) * drawn_plane);
  for (std::size_t i = 0; i < count; ++i) {
    const float log_variance = std::clamp(moments.values[count + i], kLeastLogVariance, kGreatestLogVariance);
    out.values[i] = f16_to_f32(f32_to_f16(moments.values[i] + std::exp(0.5f * log_variance) * noise[i / plane * drawn_plane + i % plane]));
  }
  return out;
}

void normalize_latents(const VideoVaeConfig& config, TokenGrid& latents) {
  const std::size_t plane = latents.plane_values();
  for (std::size_t i = 0; i < latents.values.size(); ++i)
    latents.values[i] = (latents.values[i] - config.latents_mean[i / plane]) / config.latents_std[i / plane];
}

}  // namespace tritium::video_vae
