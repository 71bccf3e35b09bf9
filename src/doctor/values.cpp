#include "doctor/values.h"

#include "weights/dtype.h"

#include <algorithm>
#include <random>

namespace tritium::doctor {

Values::Values(unsigned seed, double scale, Type type, double outlier) {
  constexpr std::int64_t kOutlierEvery = 997;
  std::mt19937 engine(seed);
  table_.resize(kPeriod);
  for (std::int64_t i = 0; i < kPeriod; ++i) {
    const double uniform = static_cast<double>(engine() >> 8) * 0x1p-23 - 1.0;
    const auto value = static_cast<float>(uniform * scale * (i % kOutlierEvery == 0 ? outlier : 1.0));
    table_[static_cast<std::size_t>(i)] = type == Type::bf16 ? bf16_to_f32(f32_to_bf16(value)) : value;
  }
  while (table_.size() < static_cast<std::size_t>(kPeriod + kLongest)) {
    const std::size_t more = std::min<std::size_t>(kPeriod, static_cast<std::size_t>(kPeriod + kLongest) - table_.size());
    table_.reserve(table_.size() + more);
    table_.insert(table_.end(), table_.begin(), table_.begin() + static_cast<std::ptrdiff_t>(more));
  }
}

std::vector<float> Values::first(std::int64_t count) const {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t done = 0; done < count; done += kPeriod)
    out.insert(out.end(), table_.begin(), table_.begin() + static_cast<std::ptrdiff_t>(std::min(kPeriod, count - done)));
  return out;
}

std::vector<std::int64_t> picked(std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> out;
  count = std::min(size, count);
  for (std::int64_t i = 0; i < count; ++i) out.push_back(count == 1 ? size - 1 : i * (size - 1) / (count - 1));
  return out;
}

}  // namespace tritium::doctor
