// Size and length of the clip, from the request, the model's defaults and what the inputs suggest. Every change of a value that was
// asked for is recorded in the plan.
#pragma once

#include "model/geometry/canvas.h"
#include "pipeline/model_info.h"

#include <tritium/plan.h>
#include <optional>

namespace tritium {

// Width and height. Without a size in the request: from `aspect`; from the picture's shape, if there is one; else the default. A
// canvas made from a ratio has the default's shorter side and at most its area. Error (usage) names field, value and range.
Result<void> decide_size(const Request& request, const ModelDefaults& defaults, std::optional<Size> picture, Plan& plan);

// Frames and latent lengths. Without a length in the request: that of the given clip, if there is one; else the default.
Result<void> decide_length(const Request& request, const ModelDefaults& defaults, std::optional<int> clip_frames, Plan& plan);

}  // namespace tritium
