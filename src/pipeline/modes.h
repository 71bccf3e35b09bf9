// Which of the model's tasks a request asks for.
#pragma once

#include "pipeline/model_info.h"

#include <tritium/request.h>

namespace tritium {

enum class Mode { t2va, fl2va, ref2va, retake, sound_for_video, video_for_sound };
const char* mode_name(Mode mode);  // as in Plan::mode

// Errors (usage) name the two fields that exclude each other, or the one that lacks its companion.
Result<Mode> decide_mode(const Request& request);

// Error (model): the mode needs the other partition of the model; names it.
Result<void> check_partition(Mode mode, Partition partition);

// "16:9" or "1.78" as width / height. Error (usage, field "aspect").
Result<double> parse_aspect(const std::string& text);

}  // namespace tritium
