// From the encoder's moments to latents as the diffusion transformer takes them. Source: spec/vae.md §1.2, §1.6.
#pragma once

#include "model/video_vae/config.h"

namespace tritium::video_vae {

// Values of encoded tokens, [planes, tokens, height, width] row-major; height and width in latent units.
struct TokenGrid {
  int planes = 0, tokens = 0, height = 0, width = 0;
  std::vector<float> values;

  [[nodiscard]] std::size_t plane_values() const {
    return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
};

// How a latent is chosen from the distribution that the encoder gives.
enum class Posterior {
  sampled,  // the official pipelines: with the noise below, then rounded to float16
  mean,     // what several other programs do
};

// Standard normal values as the reference draws them, freshly for every encode: the same for every request.
std::vector<float> posterior_noise(std::size_t count);

// `moments` holds the means, then the logarithms of the variances: 2 * latent_channels planes. The result has latent_channels planes and
// is not normalized yet. Values beyond the range of float16 become infinite when sampled.
// The noise is drawn for so many tokens, of which the first are used; precondition: drawn_tokens >= moments.tokens.
TokenGrid choose_latents(const TokenGrid& moments, Posterior posterior, int drawn_tokens);

// (z - latents_mean) / latents_std per channel.
void normalize_latents(const VideoVaeConfig& config, TokenGrid& latents);

}  // namespace tritium::video_vae
