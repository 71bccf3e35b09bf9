// The configurations of a model's parts: from the files beside the weights, from the weight file's metadata, or, for files that carry
// none, from the shapes and what is known of the released model (spec/weights.md §1.4, §1.5).
//
// Our own converter keeps the official documents under the metadata key "tritium.config": the text of config.json of transformers and text
// encoders; {"config": ..., "source": ...} of video VAEs; {"config": ..., "metadata": ...} of audio VAEs.
#pragma once

#include "pipeline/model_scan.h"
#include "weights/part.h"

namespace tritium {

// Documents as the configurations' parsers take them. Errors (code model): a document is missing that shapes cannot replace.

// Empty if there is none: shapes tell everything about the released transformer.
Result<std::string> dit_config_text(const PartCandidate& file, const WeightPart& part);
Result<std::string> text_config_text(const PartCandidate& file, const WeightPart& part);

struct VideoVaeTexts {
  std::string config, source;
};
Result<VideoVaeTexts> video_vae_config_texts(const PartCandidate& file, const WeightPart& part);

struct AudioVaeTexts {
  std::string config, metadata;  // `metadata` may be empty
};
Result<AudioVaeTexts> audio_vae_config_texts(const PartCandidate& file, const WeightPart& part);

// preprocessor_config.json and video_preprocessor_config.json of the release, for models with its vocabulary.
const char* released_image_processor();
const char* released_video_processor();

}  // namespace tritium
