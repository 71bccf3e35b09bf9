#include "ops/support.h"

#include "weights/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

namespace tritium::ops_test {

std::vector<float> random_values(std::size_t count, unsigned seed, float scale) {
  std::mt19937 engine(seed);
  std::vector<float> out(count);
  for (float& v : out) v = scale * (static_cast<float>(engine() >> 8) * 0x1p-23f - 1.0f);
  return out;
}

std::vector<float> random_bf16_values(std::size_t count, unsigned seed, float scale) {
  return rounded_to_bf16(random_values(count, seed, scale));
}

std::vector<float> rounded_to_bf16(std::vector<float> values) {
  for (float& v : values) v = bf16_to_f32(f32_to_bf16(v));
  return values;
}

namespace {

// Software devices are hidden by default; asked for before ggml looks.
const bool kShowSoftwareDevices = setenv("GGML_VK_VISIBLE_DEVICES", "0", 0) == 0;

std::string other_device() {
  if (const char* name = std::getenv("TRITIUM_TEST_DEVICE")) return name;
  return kShowSoftwareDevices ? "Vulkan0" : "";
}

}  // namespace

bool has_other_device() {
  static const bool found = [] {
    const std::vector<DeviceInfo> devices = list_devices();
    return std::getenv("TRITIUM_TEST_DEVICE") != nullptr ||
           std::any_of(devices.begin(), devices.end(), [](const DeviceInfo& d) { return d.name == other_device(); });
  }();
  return found;
}

Device& device(Path path, int threads) {
  static std::map<std::pair<Path, int>, std::unique_ptr<Device>> devices;
  std::unique_ptr<Device>& slot = devices[{path, threads}];
  if (slot == nullptr) {
    auto opened = Device::open(path == Path::device ? other_device() : "", threads);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s\n", opened.error().text().c_str());
      std::exit(1);
    }
    slot = std::move(opened).value();
    slot->set_fast_kernels(path == Path::fast);
  }
  return *slot;
}

std::string path_name(const testing::TestParamInfo<Path>& info) {
  switch (info.param) {
    case Path::fast:
      return "Fast";
    case Path::plain:
      return "Plain";
    case Path::device:
      return "Device";
  }
  return "";
}

ggml_tensor* Weights::add(std::span<const float> values, std::initializer_list<std::int64_t> ne, ggml_type type) {
  pools_.push_back(std::make_unique<TensorPool>(1));
  ggml_tensor* tensor = pools_.back()->add("weight", type, ne);
  if (const auto done = pools_.back()->allocate(device_, "the test weights"); !done.ok()) {
    ADD_FAILURE() << done.error().text();
    return tensor;
  }
  if (type == GGML_TYPE_F32) {
    upload(tensor, values);
  } else {
    std::vector<std::uint16_t> bits(values.size());
    std::transform(values.begin(), values.end(), bits.begin(), f32_to_bf16);
    ggml_backend_tensor_set(tensor, bits.data(), 0, bits.size() * sizeof(bits[0]));
  }
  return tensor;
}

std::vector<float> evaluate(Device& device, const std::function<ggml_tensor*(Graph&)>& build) {
  Graph graph(device, "test");
  ggml_tensor* result = graph.output("result", build(graph));
  if (const auto done = graph.run(); !done.ok()) {
    ADD_FAILURE() << done.error().text();
    return {};
  }
  return graph.read(result);
}

double scaled_error(std::span<const float> actual, const Expected& expected) {
  if (actual.size() != expected.value.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected.value[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    if (difference > 0) worst = std::max(worst, difference / expected.magnitude[i]);
  }
  return worst;
}

double absolute_error(std::span<const float> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, difference);
  }
  return worst;
}

}  // namespace tritium::ops_test
