// What a clip of the demonstration model shows and sounds like, without knowing the prompt, and whether that is what the prompt
// asked for. Follows the model's own evaluation (models/demo/MODEL_CARD.md, tools/demo-model/measure.py) number by number.
#pragma once

#include "media/clip.h"

#include <tritium/result.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tritium::demo {

struct Measured {
  std::string color, bg;  // a name of the palette: red green blue yellow purple orange white black
  std::string motion;     // right left up down upright ... grow shrink bounce spin
  std::string shape;      // circle square triangle star; the model itself does not know shapes well
  std::string pitch;      // low mid high
  std::string pan;        // right left still

  double visible = 0;                 // share of frames in which the object is seen
  double area = 0;                    // mean share of the picture that it covers
  double dx = 0, dy = 0;              // path of its centre from start to end, in picture widths and heights
  double area_ratio = 0;              // end against start
  double fill = 0;                    // of its bounding box
  double peak_hz = 0;                 // strongest frequency
  double tonality = 0;                // strongest wanted tone against the RMS of the spectrum
  double pan_start = 0, pan_end = 0;  // -1 left .. 1 right
  double rms = 0;

  // "color": color, ... the discrete answers by the names of eval/prompts.json.
  [[nodiscard]] std::map<std::string, std::string> answers() const;
};

// Needs sound, at least 6 frames, at least 16x16 pixels and at least 0.1 s. Error: failure.
Result<Measured> measure(const Clip& clip);

// `expect` is an "expect" object of eval/prompts.json: what the prompt fixes. Right or wrong for each of color, bg, motion and
// pitch that it names, for shape unless the object spins (its outline then changes), and always for pan, which follows the motion.
std::map<std::string, bool> score(const Measured& measured, const nlohmann::json& expect);

}  // namespace tritium::demo
