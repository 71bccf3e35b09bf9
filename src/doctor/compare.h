// How far results are from what they should be. Expected values come from plain loops in double precision over the outputs chosen.
#pragma once

#include <cstdint>
#include <string>

namespace tritium::doctor {

// A value as a sum, with the sum of the magnitudes of its terms, which the rounding error of any good implementation is proportional to.
struct Expected {
  double value = 0, magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += term < 0 ? -term : term;
  }
  // The sum of a[i]·b[i].
  void add_product(const float* a, const float* b, std::int64_t count, std::int64_t b_step = 1) {
    for (std::int64_t i = 0; i < count; ++i) add(static_cast<double>(a[i]) * static_cast<double>(b[i * b_step]));
  }
};

// The worst of many comparisons, measured in tolerances.
class Comparison {
 public:
  // The error is |actual - value| / magnitude; infinite if anything is not finite.
  void check(float actual, const Expected& expected, double tolerance);
  void check(float actual, double value, double magnitude, double tolerance) { check(actual, Expected{value, magnitude}, tolerance); }
  void merge(const Comparison& other, const std::string& where = {});

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] double error() const { return error_; }
  [[nodiscard]] double tolerance() const { return tolerance_; }
  // Something was compared and nothing was too far off.
  [[nodiscard]] bool passed() const { return count_ > 0 && error_ <= tolerance_; }
  [[nodiscard]] const std::string& where() const { return where_; }  // of the worst, where it was given

 private:
  std::int64_t count_ = 0;
  double error_ = 0, tolerance_ = 0;
  std::string where_;
};

// Of a sum of `terms` products in float32, whatever its order.
double product_tolerance(std::int64_t terms);
// What rounding one factor of every product to bfloat16 adds, at four standard deviations.
double rounding_tolerance(std::int64_t terms);
// What ggml's blocks of 8 bits add, for factors that have to be moved into them or activations that a device quantizes on its own.
double blocks_tolerance(std::int64_t terms);

}  // namespace tritium::doctor
