// The linear layer through oneDNN's matmul primitive, one primitive per tile shape, each run by a single thread.
#pragma once

#include "kernels/cpu/matmul.h"

namespace tritium::cpu {

// Whether it multiplies bfloat16 with instructions for that, under ONEDNN_MAX_CPU_ISA.
bool onednn_has_bf16();

// nullptr when oneDNN offers only its reference implementation for the shape (1000 times slower).
std::shared_ptr<const Matmul> make_onednn_matmul(const Matmul::Shape& shape);

}  // namespace tritium::cpu
