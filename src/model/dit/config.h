// Dimensions of the H3 diffusion transformer (spec/dit.md §1, §2).
#pragma once

#include "weights/part.h"

#include <string>

namespace tritium {

struct DitConfig {
  std::int64_t hidden = 0, heads = 0, head_dim = 0, ffn = 0;          // heads·head_dim is not hidden
  std::int64_t text_dim = 0, video_features = 0, audio_features = 0;  // widths of the incoming rows
  std::int64_t time_input = 0, time_hidden = 0;                       // 0 for pruned models, which have no time embedder
  std::int64_t time_dim = 0;                                          // what the modulation layers see
  std::int64_t curve_points = 0;                                      // pruned models: length of the curve table, otherwise 0
  std::int64_t rope_frequencies = 0;                                  // per position axis
  int layers = 0, refiner_layers = 0;
  float eps = 1e-5f;

  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  [[nodiscard]] bool pruned() const { return curve_points > 0; }
};

// All dimensions from the tensor shapes. `config_json` (the transformer's config.json; official or diffusers keys; may be empty)
// gives what shapes cannot show and is checked against them. Errors (code model) name the tensor or key.
Result<DitConfig> read_dit_config(const WeightPart& part, std::string_view config_json);

}  // namespace tritium
