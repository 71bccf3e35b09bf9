#pragma once

#include "sampler/noise.h"

#include <string>

namespace tritium {

// "diffsynth", "sglang" or "comfyui". Error (usage, field "noise") lists them.
Result<NoiseMode> noise_mode_from_name(const std::string& name);

}  // namespace tritium
