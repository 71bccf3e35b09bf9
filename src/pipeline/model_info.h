// A model folder: its files, configurations and what they say, without any weight read.
//
// Understood is the official tree: DIR/FL2VA/{transformer,text_encoder,tokenizer,video_vae,audio_vae}, or DIR itself being such a
// partition. A file "tritium.json" in the partition may give a name, defaults and the trained range.
#pragma once

#include "model/audio_vae/config.h"
#include "model/dit/config.h"
#include "model/text/text_config.h"
#include "model/video_vae/config.h"
#include "model/vision/vision_config.h"
#include "weights/checkpoint.h"

#include <array>
#include <filesystem>
#include <memory>

namespace tritium {

enum class Partition { fl2va, ref2va };

// Defaults and trained ranges; those of the released model unless the folder says otherwise.
struct ModelDefaults {
  int width = 1344, height = 768, frames = 124, steps = 50;
  double video_shift = 12.0, audio_shift = 3.0;
  std::array<int, 2> trained_frames{124, 362}, trained_width{256, 2048}, trained_height{256, 2048};
};

struct ModelInfo {
  std::filesystem::path root;  // the partition's folder
  std::string name;
  Partition partition = Partition::fl2va;
  ModelDefaults defaults;

  std::shared_ptr<const Checkpoint> text, dit, video_vae, audio_vae;
  TextConfig text_config;
  DitLayout dit_layout = DitLayout::interleaved;
  DitConfig dit_config;
  video_vae::VideoVaeConfig video_vae_config;
  audio_vae::AudioVaeConfig audio_vae_config;

  [[nodiscard]] std::filesystem::path tokenizer() const { return root / "tokenizer"; }
};

// The vision tower's dimensions and the sizes that pictures and reference videos are brought to for it; read only when needed.
struct VisionSetup {
  VisionConfig config;
  ResizeLimits image, video;
};
// Errors (code model) name the file and key.
Result<VisionSetup> read_vision_setup(const ModelInfo& model);

// Errors (code model): folder or part missing (names what was looked for), damaged files, parts that do not belong together.
Result<ModelInfo> open_model(const std::filesystem::path& folder);

}  // namespace tritium
