#include "pipeline/noise_mode.h"

#include <fmt/format.h>

namespace tritium {

Result<NoiseMode> noise_mode_from_name(const std::string& name) {
  if (name == "diffsynth") return NoiseMode::diffsynth;
  if (name == "sglang") return NoiseMode::sglang;
  if (name == "comfyui") return NoiseMode::comfyui;
  return Error{ErrorCode::usage, fmt::format("'{}' is not one of diffsynth, sglang, comfyui", name), "noise", ""};
}

}  // namespace tritium
