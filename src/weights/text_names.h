// How files name the text encoder's tensors (spec/weights.md §1.4). Official: "model.language_model.…" and "model.visual.…".
#pragma once

#include "weights/part.h"

#include <string_view>

namespace tritium {

// llama.cpp's name of an official one ("blk.7.attn_q.weight"); names it has no word for stay as they are.
std::string llama_text_name(std::string_view official);

// Places of official names. Error code model: no tensor of a Qwen3-VL text encoder is found, or only its vision half (mmproj).
Result<Naming> text_naming(const LogicalTensors& tensors);

// Opens a text encoder with its names. Errors: LogicalTensors::open's, text_naming's.
Result<std::shared_ptr<const WeightPart>> open_text_encoder(std::shared_ptr<const Checkpoint> checkpoint);

}  // namespace tritium
