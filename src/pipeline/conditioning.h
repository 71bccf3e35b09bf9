// What the diffusion transformer is given besides noise.
#pragma once

#include "model/dit/dit.h"
#include "sampler/latents.h"

#include <tritium/plan.h>

namespace tritium {

// Keyframes and references as the packed sequence takes them; known before anything is encoded.
struct ConditionShapes {
  std::vector<int> keyframes;
  std::vector<Reference> references;

  // Rows of the packed sequence for a canvas of this size in latent cells.
  [[nodiscard]] std::int64_t rows(int latent_height, int latent_width) const;
};

struct Conditioning {
  std::vector<float> text;          // [tokens][text_dim] row-major
  std::vector<Modality> text_tags;  // [tokens]
  ConditionShapes shapes;
  DitRows rows;       // of keyframes and references, in packed order, noise already mixed in
  RetakeMasks masks;  // empty: everything is generated
  Latents clean;      // of the streams that have a mask
};

}  // namespace tritium
