#include "sampler/block_choice.h"

#include <algorithm>
#include <numeric>

namespace tritium {

std::vector<int> choose_blocks(std::span<const double> magnitudes, int count) {
  const int all = static_cast<int>(magnitudes.size());
  std::vector<int> out{0, 1, all - 1}, others(static_cast<std::size_t>(all - kBlocksThatRun));
  std::iota(others.begin(), others.end(), 2);
  std::stable_sort(others.begin(), others.end(),
                   [&](int a, int b) { return magnitudes[static_cast<std::size_t>(a)] > magnitudes[static_cast<std::size_t>(b)]; });
  out.insert(out.end(), others.begin(), others.begin() + (count - kBlocksThatRun));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tritium
