// The state of a run: one latent per stream. Velocities, noise and clean clips have the same form.
#pragma once

#include <vector>

namespace tritium {

struct Latents {
  std::vector<float> video;  // [channels, T, H, W]
  std::vector<float> audio;  // [2, dim, A]
};

}  // namespace tritium
