// Pictures, videos and sounds of a request: from files to pixels and samples in the form the encoders take.
#pragma once

#include "base/cancel.h"
#include "base/picture.h"
#include "model/geometry/canvas.h"
#include "pipeline/modes.h"

#include <tritium/plan.h>
#include <optional>

namespace tritium {

// Stereo sound at 32 kHz; both channels equally long, empty for none.
struct InputSound {
  std::vector<float> left, right;
  [[nodiscard]] bool empty() const { return left.empty(); }
};

struct InputReference {
  ReferenceInput::Kind kind = ReferenceInput::Kind::image;
  std::vector<Picture> frames;  // an image has one; a video all of one size at 24 per second; sound alone none
  InputSound sound;
};

struct Inputs {
  Mode mode = Mode::t2va;
  // What decides about canvas and length where the request does not.
  std::optional<Size> picture;  // of the first keyframe or of the given clip, square pixels
  std::optional<int> frames;    // length of the given clip or sound, at 24 per second

  std::vector<Picture> keyframes;    // on the canvas after fit_inputs()
  std::vector<int> keyframe_places;  // pixel frame each stands for: 0 or kLastFrame
  std::vector<InputReference> references;

  // Retake, sound for a video, video for a sound: the clip that is kept in parts.
  std::vector<Picture> clip;  // on the canvas; after fit_inputs() as many as the plan has frames, the last one repeated
  int clip_frames = 0;        // that the file itself gave
  InputSound sound;           // of the clip
};

// Reads what the plan depends on: keyframes, and the clip of a retake (already on its canvas). Errors: usage naming file and reason,
// interrupted, does_not_fit.
Result<Inputs> open_inputs(const Request& request, Mode mode, const ModelDefaults& defaults, const CancelToken* cancel);

// Once canvas and length are decided: keyframes to the canvas, references read and scaled, the clip brought to the plan's length.
Result<void> fit_inputs(Inputs& inputs, const Request& request, const Plan& plan, const CancelToken* cancel);

}  // namespace tritium
