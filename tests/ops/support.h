// Shared by the operation tests: random data, devices with and without the fast kernels, one-operation graphs, and error measures.
#pragma once

#include "device/graph.h"

#include <gtest/gtest.h>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tritium::ops_test {

// Uniform values in ±scale, the same for the same seed on every machine.
std::vector<float> random_values(std::size_t count, unsigned seed, float scale = 1.0f);
// The same, rounded to bfloat16.
std::vector<float> random_bf16_values(std::size_t count, unsigned seed, float scale = 1.0f);
std::vector<float> rounded_to_bf16(std::vector<float> values);

// Where and how an operation is computed: by the CPU's own kernels, by plain nodes on the CPU, by plain nodes on another device.
enum class Path { fast, plain, device };

// Opened once per combination. The other device is the one named by the environment variable TRITIUM_TEST_DEVICE, else the first Vulkan
// device, which may be a software one.
Device& device(Path path, int threads = 2);
bool has_other_device();

// Weights as a model would hold them: persistent tensors in float32 or bfloat16.
class Weights {
 public:
  explicit Weights(Device& device) : device_(device) {}
  // Declares and fills one tensor; `ne` innermost first.
  ggml_tensor* add(std::span<const float> values, std::initializer_list<std::int64_t> ne, ggml_type type = GGML_TYPE_F32);

 private:
  Device& device_;
  std::vector<std::unique_ptr<TensorPool>> pools_;
};

// Runs the graph of one operation and returns its result.
std::vector<float> evaluate(Device& device, const std::function<ggml_tensor*(Graph&)>& build);

// An expected value with the sum of the absolute values of its terms, which the rounding error is proportional to.
struct Expected {
  std::vector<double> value;
  std::vector<double> magnitude;
  explicit Expected(std::size_t count) : value(count, 0.0), magnitude(count, 0.0) {}
  void add(std::size_t i, double term) {
    value[i] += term;
    magnitude[i] += term < 0 ? -term : term;
  }
};

// Largest |actual - expected| / magnitude; infinity when the sizes differ or anything is not finite.
double scaled_error(std::span<const float> actual, const Expected& expected);
// Largest |actual - expected|, with the same rule.
double absolute_error(std::span<const float> actual, std::span<const double> expected);

inline std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }

// A test that runs on every path; without another device that part is skipped, and says so.
class EveryPath : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (GetParam() == Path::device && !has_other_device())
      GTEST_SKIP() << "NO DEVICE BESIDE THE CPU: install libggml0-backend-vulkan and mesa-vulkan-drivers to test one";
  }
  [[nodiscard]] Device& device() const { return ops_test::device(GetParam()); }
  [[nodiscard]] bool on_cpu() const { return GetParam() != Path::device; }
};

inline auto every_path() { return testing::Values(Path::fast, Path::plain, Path::device); }
std::string path_name(const testing::TestParamInfo<Path>& info);

}  // namespace tritium::ops_test
