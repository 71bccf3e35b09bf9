// Everything the denoiser is given besides noise: text rows with pictures in them, keyframes, references, a clip to keep.
#pragma once

#include "model/prompt/presentation.h"
#include "model/vision/patches.h"
#include "pipeline/conditioning.h"
#include "pipeline/inputs.h"
#include "pipeline/parts.h"

namespace tritium {

// The pictures of a request as the vision tower reads them, and the prompt around them.
struct PromptInputs {
  std::vector<PatchRows> images, videos;  // in request order
  Presentation presentation;
};
Result<PromptInputs> prepare_prompt(const Tokenizer& tokenizer, const ModelInfo& model, const std::string& prompt, const Inputs& inputs);

ConditionShapes condition_shapes(const Inputs& inputs, const ModelInfo& model);

// What the vision tower sees of a prompt's pictures; nothing for text alone. Needs Part::vision where there are pictures.
Result<VisionInputs> look_at_pictures(const Parts& parts, const PromptInputs& prompt, const CancelToken* cancel);

// The text encoder, with the pictures in their places.
Result<void> encode_prompt(const Parts& parts, const PromptInputs& prompt, const VisionInputs& pictures, Conditioning& conditioning,
                           const CancelToken* cancel, const std::function<void(int done, int total)>& progress);

// Keyframes, references and the clip through the encoders of the two VAEs.
Result<void> encode_inputs(const Parts& parts, const ModelInfo& model, const Inputs& inputs, const Request& request, const Plan& plan,
                           Conditioning& conditioning, const CancelToken* cancel, const std::function<void(int done, int total)>& progress);

}  // namespace tritium
