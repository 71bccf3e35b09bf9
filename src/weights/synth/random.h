// Random words by number: the n-th can be had without those before it, so any piece of a file can be made by any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tritium {

class RandomWords {
 public:
  // Streams of different seeds or names have nothing to do with each other.
  RandomWords(std::uint64_t seed, std::string_view name) {
    key_ = mixed(seed + kStep);
    for (const char c : name) key_ = mixed((key_ ^ static_cast<unsigned char>(c)) + kStep);
  }

  [[nodiscard]] std::uint64_t at(std::uint64_t n) const { return mixed(key_ + (n + 1) * kStep); }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio: a Weyl sequence with an avalanche behind it

  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
  }

  std::uint64_t key_ = 0;
};

// `count` values of equal probability that together are a standard normal distribution: quantiles at (i + 1/2) / count, ascending, scaled
// so that their mean square is 1.
std::vector<float> normal_quantiles(std::size_t count);

}  // namespace tritium
