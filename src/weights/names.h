// What the maps of tensor names have in common.
#pragma once

#include "weights/quant/logical_tensors.h"

#include <optional>
#include <string>
#include <string_view>

namespace tritium {

// What stands before `end` in the first name that ends with it, up to and including a dot; empty if the name is `end` itself. Repacks put
// all kinds of words there. None if no name ends so.
std::optional<std::string> prefix_before(const LogicalTensors& tensors, std::string_view end);

}  // namespace tritium
