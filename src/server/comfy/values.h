// What flows over the links of a graph, as far as a clip depends on it.
#pragma once

#include "server/comfy/expression.h"
#include "server/comfy/graph.h"

#include <tritium/request.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tritium::server::comfy {

struct ModelValue {
  std::string loader;  // node
  std::vector<LoraInput> loras;
  std::optional<double> video_shift, audio_shift;
  Acceleration acceleration{};
  std::string accelerator{};  // node
};

struct ClipValue {
  std::string loader;
};
struct VaeValue {
  std::string loader;
};

// A file that was uploaded or made here.
struct FileValue {
  ReferenceInput::Kind kind = ReferenceInput::Kind::image;
  std::filesystem::path file;
  std::string node;  // that loads it
};
// One half of a loaded video.
struct TrackValue {
  FileValue video;
};

struct ConditioningValue {
  std::string node, prompt_input = "prompt";
  std::string prompt;
  std::optional<std::int64_t> width, height, length;  // of the canvas that pictures were fitted to; none for plain text
  std::filesystem::path first_frame, last_frame;
  bool first_is_stretched = false, last_is_stretched = false;
  std::vector<ReferenceInput> references;
  bool official_reference_size = false;
  bool zeroed = false;  // by ConditioningZeroOut
  [[nodiscard]] bool has_pictures() const { return !first_frame.empty() || !last_frame.empty() || !references.empty(); }
};

struct Generation;

struct LatentValue {
  std::string node;
  std::int64_t width = 0, height = 0, length = 0;
  std::shared_ptr<const Generation> made;  // null: empty, to be filled
  bool pictures = true, sound = true;      // which streams it still holds
};

struct NoiseValue {
  std::uint64_t seed = 0;
  std::string node;
};
struct SamplerValue {
  std::string name, node;
};
struct SigmasValue {
  ModelValue model;
  std::int64_t steps = 0;
  std::string node;
};
struct GuiderValue {
  ModelValue model;
  ConditioningValue positive;
};

// One run of a sampler: everything that makes a clip.
struct Generation {
  std::string sampler;  // node
  ModelValue model;
  ConditioningValue positive;
  LatentValue latent;
  std::uint64_t seed = 0;
  std::int64_t steps = 0;
  std::string seed_node, steps_node;
  std::string seed_input = "noise_seed";
};
using GenerationPtr = std::shared_ptr<const Generation>;

struct PicturesValue {
  GenerationPtr made;
  std::string node;  // that decoded them
};
struct SoundValue {
  GenerationPtr made;
  std::string node;
};
struct VideoValue {
  GenerationPtr made;
  std::string picture_node, sound_node;  // sound_node empty: without sound
};

using Value =
    std::variant<std::int64_t, double, bool, std::string, ModelValue, ClipValue, VaeValue, FileValue, TrackValue, ConditioningValue,
                 LatentValue, NoiseValue, SamplerValue, SigmasValue, GuiderValue, PicturesValue, SoundValue, VideoValue>;

// Something that is done in another way than ComfyUI would, or that changed.
struct Note {
  std::string node, class_type, input, from, to, reason;
};

}  // namespace tritium::server::comfy
