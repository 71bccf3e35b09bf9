// Dimensions of the H3 diffusion transformer, and the naming of its tensors in a file (spec/dit.md §1, §2).
#pragma once

#include "weights/checkpoint.h"

#include <optional>
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

// Row order and names. Official and plain files have the same names and shapes and differ in the order of the qkv rows only.
enum class DitLayout {
  interleaved,  // official shards: qkv rows per head [heads, 3, head_dim]
  plain,        // single-file repacks: [3, heads, head_dim]
  diffusers,    // separate to_q, to_k, to_v; the halves of the first MLP matrix swapped
};
const char* layout_name(DitLayout layout);

// The rule of spec/weights.md §1.2. `official_config`: a config.json of the original repository lies beside the file.
Result<DitLayout> detect_dit_layout(const Checkpoint& checkpoint, bool official_config);

// The file's name of an official tensor name, e.g. "blocks.3.attn.out_proj.weight"; optional prefixes of repacks are found by looking.
class DitNames {
 public:
  DitNames(const Checkpoint& checkpoint, DitLayout layout);
  [[nodiscard]] std::string operator()(const std::string& official) const;

 private:
  DitLayout layout_;
  std::string prefix_;
};

// All dimensions from the tensor shapes. `config_json` (the transformer's config.json; official or diffusers keys; may be empty)
// gives what shapes cannot show and is checked against them. Errors (code model) name the tensor or key.
Result<DitConfig> read_dit_config(const Checkpoint& checkpoint, DitLayout layout, std::string_view config_json);

}  // namespace tritium
