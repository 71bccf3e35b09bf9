// Numbers to feed operations with: as many as the largest tensor of the model needs, without making each of them.
#pragma once

#include <cstdint>
#include <vector>

namespace tritium::doctor {

// An endless sequence that repeats after a prime number of values, so that no two rows of a matrix are the same and an index that is wrong
// by a power of two, or by whole rows, meets another value.
class Values {
 public:
  enum class Type { f32, bf16 };
  // Uniform in ±scale; every 997th is `outlier` times as large. bf16: rounded to it.
  explicit Values(unsigned seed, double scale = 1, Type type = Type::f32, double outlier = 1);

  static constexpr std::int64_t kPeriod = 65521;
  static constexpr std::int64_t kLongest = 65536;

  // The values from `index` on; kLongest of them may be read.
  [[nodiscard]] const float* at(std::int64_t index) const { return table_.data() + index % kPeriod; }
  [[nodiscard]] std::vector<float> first(std::int64_t count) const;

 private:
  std::vector<float> table_;
};

// `count` indexes below `size` that spread evenly and have both ends; all of them if there are no more.
std::vector<std::int64_t> picked(std::int64_t size, std::int64_t count);

}  // namespace tritium::doctor
