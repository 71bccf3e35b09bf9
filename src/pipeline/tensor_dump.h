// --dump-tensors: every named intermediate of every graph as a file of its own.
#pragma once

#include "device/device.h"

#include <filesystem>

namespace tritium {

// Writes each tensor to "<folder>/NNNNNN_<name>.safetensors" (one tensor named "value", outermost dimension first), numbered in the
// order of computation. The folder is created. A failed write is reported once on standard error and ends the dumping.
Result<TensorObserver> make_tensor_dump(const std::filesystem::path& folder);

}  // namespace tritium
