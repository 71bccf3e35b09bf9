// Operations and memory of encoding the pictures, videos and sounds of a request.
#pragma once

#include "pipeline/conditions.h"
#include "pipeline/cost.h"

namespace tritium {

// Products and attention of the vision tower and the two encoders (spec/vae.md §1.11, §2.8), and the memory of the largest of them
// besides the pictures themselves.
StageCost inputs_cost(const Inputs& inputs, const PromptInputs& prompt, const ModelInfo& model);

}  // namespace tritium
