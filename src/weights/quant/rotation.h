// The ConvRot rotation (spec/weights.md §4.1): H = H4 ⊗ … ⊗ H4 / sqrt(G) on consecutive groups of G values, G = 4^n,
// H4 = [[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]]. H is symmetric and its own inverse.
#pragma once

#include <cstdint>
#include <span>

namespace tritium {

[[nodiscard]] bool is_rotation_group(std::int64_t group);  // a power of 4 from 4 on

// values := rot(values) · factor, in place, in float32. The factor is applied last, together with 1/sqrt(G): whole numbers below
// 2^24/G pass through without any rounding before that. Precondition: is_rotation_group(group) and it divides values.size().
void rotate(std::span<float> values, std::int64_t group, float factor = 1.0f);

}  // namespace tritium
