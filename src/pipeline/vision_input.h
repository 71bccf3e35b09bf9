// Pictures and reference videos made ready for the vision tower: resized and cut into patches (spec/text.md §5.1-§5.3 and §5.6).
#pragma once

#include "media/clip.h"
#include "model/vision/vision_config.h"

namespace tritium {

// What the model wants; pictures and videos have different limits.
struct VisionRules {
  PatchShape patch;
  ResizeLimits limits;
};

// `picture` is what also goes to the video VAE: a keyframe on the canvas, a reference image at its own size.
// Errors (usage, field "image"): a shape that smart_resize_image refuses.
Result<PatchRows> prepare_image(const PictureView& picture, const VisionRules& rules);

// `frames`: the sampled frames, all of one size. Errors (usage, field "video"): a shape that smart_resize_video refuses.
Result<PatchRows> prepare_video(std::span<const PictureView> frames, const VisionRules& rules);

// The frames of a prepared clip at 24 fps that are shown to the vision tower: 2 per second. They are views into the clip.
// Precondition: the clip's pictures are complete.
std::vector<PictureView> sample_frames(const Clip& clip);

}  // namespace tritium
