// How long a stage computes at measured speeds.
#pragma once

#include "doctor/speeds.h"
#include "pipeline/cost.h"

#include <optional>

namespace tritium {

// `kind`: how the matrices of the part are kept and multiplied. Where that was not measured, the next slower kind that can do the same
// counts (int8 as decoded, convolutions of sound as float32, narrow attention as float32). Nothing where there is none.
std::optional<double> compute_seconds(const StageWork& work, ProductKind kind, const MeasuredSpeeds& speeds);

}  // namespace tritium
