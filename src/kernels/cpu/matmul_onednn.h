// The linear layer through oneDNN's matmul primitive, one primitive per tile shape, each run by a single thread.
#pragma once

#include "kernels/cpu/matmul.h"

namespace tritium::cpu {

// nullptr when oneDNN offers only its reference implementation for the shape (1000 times slower).
std::shared_ptr<const Matmul> make_onednn_matmul(const Matmul::Shape& shape);

}  // namespace tritium::cpu
