// Dimensions of the Qwen3-VL vision tower and what pictures must look like for it (spec/text.md §4 and §5.1).
#pragma once

#include "model/geometry/smart_resize.h"
#include "model/vision/patches.h"

#include <string_view>

namespace tritium {

struct VisionConfig {
  int depth = 0;
  std::int64_t hidden = 0, heads = 0, ffn = 0, out_hidden = 0;
  std::int64_t table_side = 0;        // the table of learned positions has table_side² rows
  std::vector<int> deepstack_blocks;  // ascending; set i is taken after this block
  PatchShape patch;
  VisionPads pads;

  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
};

// From the text encoder's config.json, "vision_config" and the pad ids. Errors (code model) name the key and its value; that the output
// does not have the width of the text stack is one of them.
Result<VisionConfig> parse_vision_config(std::string_view json);

// Sizes of pictures or videos, from preprocessor_config.json or video_preprocessor_config.json; `file` names it in errors (code model).
// What the file says about patches must agree with the tower, and the pixel values must be those of cut_patches.
Result<ResizeLimits> parse_resize_limits(std::string_view json, std::string_view file, const PatchShape& patch);

}  // namespace tritium
