// Access to the golden data: $TRITIUM_GOLDEN, or the repository's own selection in tests/golden/data.
#pragma once

#include "weights/checkpoint.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace tritium::golden {

std::filesystem::path root();
// Whether the tree has this file: for the parts that a selection of a full tree may leave out (intermediates, further layouts).
bool has(const std::string& relative);
inline std::filesystem::path path(const std::string& relative) { return root() / relative; }

// Aborts the test run with a message when the file cannot be read: golden data is the tests' own input.
nlohmann::json json(const std::string& relative);

// A golden safetensors file with typed access; aborts with a message on a missing key.
class Tensors {
 public:
  explicit Tensors(const std::string& relative);
  [[nodiscard]] bool has(const std::string& key) const { return checkpoint_.find(key) != nullptr; }
  [[nodiscard]] std::vector<std::string> names() const { return checkpoint_.names(); }
  [[nodiscard]] std::vector<std::int64_t> shape(const std::string& key) const;
  [[nodiscard]] std::vector<float> f32(const std::string& key) const;         // any dtype widened
  [[nodiscard]] std::vector<std::int64_t> i64(const std::string& key) const;  // I32, I64, U8, BOOL
  [[nodiscard]] std::vector<double> f64(const std::string& key) const;        // F64 or anything widened
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  const TensorInfo& info(const std::string& key) const;
  std::string file_;
  Checkpoint checkpoint_;
};

// Largest absolute difference; infinity when sizes differ or anything is not finite.
double max_abs_diff(std::span<const float> a, std::span<const float> b);
// ||a-b|| / ||b||; infinity when sizes differ or anything is not finite.
double rel_l2(std::span<const float> a, std::span<const float> b);

// Prints "golden <case>: <error> (tolerance <tolerance>)" and fails the current test when error > tolerance.
void expect_within(const std::string& case_name, double error, double tolerance);

}  // namespace tritium::golden
