// The denoising cases of golden/dit as requests to our own packing and model.
#pragma once

#include "model/dit/dit.h"
#include "support/golden.h"
#include "weights/dit_names.h"

namespace tritium::golden {

// The model files of golden/dit that the tree has (the official layout always) and the layout that its README gives for each.
struct DitFile {
  std::string stem;
  DitLayout layout;
  std::string config_json;  // what lies beside the file in its own tree; may be empty
};
std::vector<DitFile> dit_files();

std::shared_ptr<const WeightPart> open_dit_part(const DitFile& file);
std::unique_ptr<Dit> load_dit(Device& device, const DitFile& file);

// Latent shapes and conditions of one case of a packing description ("keyframe_indices", "refs", ...).
PackingRequest packing_request(const nlohmann::json& description, const VideoLatentShape& video, int audio_latents,
                               std::vector<Modality> text_tags);

// Video shape from a latent tensor's dimensions [1?, channels, T, H, W].
VideoLatentShape video_shape(const std::vector<std::int64_t>& dims);

}  // namespace tritium::golden
