// How large the parts of a model are, block by block: what the memory planner knows about weights. No weight is read for it.
//
// Byte sums of the released model in its circulating formats follow spec/weights.md §1 (tensors), §4 (codings) and §2.3 (GGUF).
#pragma once

#include "doctor/speeds.h"
#include "pipeline/model_info.h"
#include "pipeline/plan.h"

#include <memory>
#include <span>
#include <string_view>

namespace tritium {

struct UnitBytes {
  std::uint64_t resident = 0;  // on a device, ready to be used
  std::uint64_t file = 0;      // what has to be read for it
  UnitBytes& operator+=(UnitBytes other) {
    resident += other.resident;
    file += other.file;
    return *this;
  }
};

struct PartShape {
  std::string format;            // of the matrices: "f32" or "bf16" as computed, of presets as stored ("int8", "q4_k")
  std::vector<UnitBytes> units;  // blocks that can be streamed, in the order they run
  UnitBytes other;               // everything else; needed as long as the part runs
  std::uint64_t unread = 0;      // of its file, never loaded
  ProductKind product = ProductKind::f32;

  [[nodiscard]] UnitBytes total() const;
  [[nodiscard]] std::uint64_t largest_unit() const;  // resident bytes; 0 without units
};

struct ModelShape {
  std::string name;
  PartShape inputs, text, dit, video, audio;  // `inputs`: the encoders a request needs, empty for text alone
  TextConfig text_config;
  DitConfig dit_config;
  video_vae::VideoVaeConfig video_vae_config;
  audio_vae::AudioVaeConfig audio_vae_config;
  // The same as devices of their own memory keep it; null: no different.
  std::shared_ptr<const ModelShape> on_devices;
};

// Of a model on disk. `weights`: what each part takes as a whole (part_weights()); it is divided among the blocks as the file's bytes are.
struct PartWeights {
  PlanInputs::Weights inputs, text, dit, video, audio;
};
ModelShape model_shape(const ModelInfo& model, const PartWeights& weights);

// The released model in one set of formats, as people download them together.
struct ModelPreset {
  std::string_view name;   // "int8-pruned"
  std::string_view title;  // "int8 pruned"
  std::string_view dit;    // format of the transformer
  bool pruned;
  std::string_view text;  // format of the text encoder
};
std::span<const ModelPreset> model_presets();
const ModelPreset* find_preset(std::string_view name);

// `form`: as the device keeps matrices, see MatrixForm: `packed` has the file's size, `blocks` the size of ggml's blocks.
ModelShape released_model_shape(const ModelPreset& preset, MatrixForm form);

}  // namespace tritium
