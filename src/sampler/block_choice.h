// Which blocks of the transformer run when not all do. Source: spec/dit.md §14 (layer thinning).
#pragma once

#include <span>
#include <vector>

namespace tritium {

// The first two and the last block always run.
inline constexpr int kBlocksThatRun = 3;

// `count` blocks in their order: those that always run, then the ones with the largest magnitude; of equal ones the first.
// `magnitudes`: of what each block adds (DitRun::gate_magnitudes()). Precondition: kBlocksThatRun <= count <= magnitudes.size().
[[nodiscard]] std::vector<int> choose_blocks(std::span<const double> magnitudes, int count);

}  // namespace tritium
