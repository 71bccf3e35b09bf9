#include "doctor/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tritium::doctor {
namespace {

double scaled(float actual, const Expected& expected) {
  const double difference = std::abs(static_cast<double>(actual) - expected.value);
  if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : difference / expected.magnitude;
}

}  // namespace

void Comparison::check(float actual, const Expected& expected, double tolerance) {
  Comparison one;
  one.count_ = 1;
  one.error_ = scaled(actual, expected);
  one.tolerance_ = tolerance;
  merge(one);
}

void Comparison::merge(const Comparison& other, const std::string& where) {
  if (other.count_ == 0) return;
  if (count_ == 0 || other.error_ * tolerance_ > error_ * other.tolerance_ || std::isinf(other.error_)) {
    error_ = other.error_;
    tolerance_ = other.tolerance_;
    where_ = where.empty() ? other.where_ : where;
  }
  count_ += other.count_;
}

double product_tolerance(std::int64_t terms) { return std::min(2.5e-7 * std::sqrt(static_cast<double>(terms) + 16.0), 4e-6); }
double rounding_tolerance(std::int64_t terms) { return 4 * 0x1p-9 / std::sqrt(static_cast<double>(terms)); }
double blocks_tolerance(std::int64_t terms) { return 0.1 / std::sqrt(static_cast<double>(terms)); }

}  // namespace tritium::doctor
