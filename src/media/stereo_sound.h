// Sound of two channels.
#pragma once

#include <vector>

namespace tritium {

struct StereoSound {
  int sample_rate = 0;             // Hz
  std::vector<float> left, right;  // [samples] each, full scale is -1..1

  [[nodiscard]] double seconds() const { return sample_rate > 0 ? static_cast<double>(left.size()) / sample_rate : 0; }
};

}  // namespace tritium
