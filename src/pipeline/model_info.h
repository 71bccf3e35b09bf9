// A model: its files, configurations and what they say, without any weight read.
//
// Its files are found by model_files.h. A file "tritium.json" in the partition's folder (of other layouts: the folder given) may give a
// name, defaults and the trained range; "model_index.json" there the noise schedule.
#pragma once

#include "model/audio_vae/config.h"
#include "model/dit/config.h"
#include "model/text/text_config.h"
#include "model/video_vae/config.h"
#include "model/vision/vision_config.h"
#include "pipeline/model_files.h"

#include <array>
#include <filesystem>
#include <memory>

namespace tritium {

// Defaults and trained ranges; those of the released model unless the folder says otherwise.
struct ModelDefaults {
  int width = 1344, height = 768, frames = 124, steps = 50;
  double video_shift = 12.0, audio_shift = 3.0;
  std::array<int, 2> trained_frames{124, 362}, trained_width{256, 2048}, trained_height{256, 2048};
};

struct ModelInfo {
  std::filesystem::path root;  // the partition's folder of an official tree, otherwise the folder given
  ModelFiles files;
  std::string name;
  Partition partition = Partition::fl2va;
  ModelDefaults defaults;

  std::shared_ptr<const WeightPart> text, dit, video_vae, audio_vae;
  std::string text_json;  // the text encoder's config.json
  TextConfig text_config;
  DitLayout dit_layout = DitLayout::interleaved;
  DitConfig dit_config;
  video_vae::VideoVaeConfig video_vae_config;
  audio_vae::AudioVaeConfig audio_vae_config;

  [[nodiscard]] const std::filesystem::path& tokenizer() const { return files.tokenizer; }
};

// The vision tower's dimensions and the sizes that pictures and reference videos are brought to for it; read only when needed.
struct VisionSetup {
  VisionConfig config;
  ResizeLimits image, video;
};
// Errors (code model) name the file and key.
Result<VisionSetup> read_vision_setup(const ModelInfo& model);

// `path`: a folder or the transformer's file, see find_model_files(). Errors (code model): its errors, damaged files, parts that do not
// belong together, an order of qkv rows that cannot be proven.
Result<ModelInfo> open_model(const std::filesystem::path& path, const ModelSelection& selection = {});

}  // namespace tritium
