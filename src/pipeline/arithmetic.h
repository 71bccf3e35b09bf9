// Which arithmetic this process computes with, down to the last bits: what is kept for later is only good for the same.
#pragma once

#include <string>

namespace tritium {

// Another build may compute otherwise in the last bits, and so may the same one on another type of processor, with other kernels
// (TRITIUM_KERNELS, ONEDNN_MAX_CPU_ISA) or another version of ggml.
std::string arithmetic_of_this_program();

}  // namespace tritium
