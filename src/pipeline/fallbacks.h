// Which operations of a model a device would leave to the CPU, found without reading weights and without computing.
#pragma once

#include "pipeline/parts.h"

namespace tritium {

// Every graph of a part, built with the model's own dimensions on a small input and placed on the device, which is opened for this:
// operations the device lacks, by graph. Empty for the CPU. A remote device does not say what it lacks: its list is always empty.
// `compute` as in part_weights(). Errors: device, model, usage (compute).
Result<std::vector<UnsupportedOp>> part_fallbacks(const ModelInfo& model, Part part, const std::string& device, const std::string& compute);

}  // namespace tritium
