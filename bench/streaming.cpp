// What streaming costs: passes over int8 layers larger than the budget, against computing alone and reading alone.
//
//   bench_streaming FILE [GIGABYTES [ROWS [LAYERS]]]   FILE is written with random int8 layers if it does not exist; ROWS of activations go
//                                                      through LAYERS of the four of a unit: fewer, and reading takes longer than computing
#include "base/system.h"
#include "device/params.h"
#include "device/residency/block_store.h"
#include "ops/linear.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <algorithm>
#include <fstream>

namespace {

using namespace tritium;

constexpr std::int64_t kWidth = 5120, kPerUnit = 4;
constexpr int kPasses = 3;

template <class T>
T take(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.error().text());
  std::exit(1);
}

std::string layer(int unit, std::int64_t i) { return fmt::format("units.{}.layers.{}", unit, i); }

void write_file(const std::string& path, int units) {
  std::vector<TensorDeclaration> tensors;
  const std::string about = R"({"format": "int8_tensorwise"})";
  for (int u = 0; u < units; ++u)
    for (std::int64_t i = 0; i < kPerUnit; ++i) {
      tensors.push_back({layer(u, i) + ".weight", DType::i8, {kWidth, kWidth}});
      tensors.push_back({layer(u, i) + ".weight_scale", DType::f32, {kWidth, 1}});
      tensors.push_back({layer(u, i) + ".comfy_quant", DType::u8, {static_cast<std::int64_t>(about.size())}});
    }
  const FileLayout layout = take(layout_file(Container::safetensors, tensors, {}));
  std::ofstream out(path, std::ios::binary);
  out.write(layout.header.data(), static_cast<std::streamsize>(layout.header.size()));
  const std::vector<float> scales(static_cast<std::size_t>(kWidth), 1e-4f);
  std::vector<std::uint64_t> noise(1u << 16);
  std::uint64_t state = 1;
  for (const TensorInfo& tensor : layout.tensors) {
    out.seekp(static_cast<std::streamoff>(tensor.offset));
    if (tensor.dtype == DType::f32) {
      out.write(reinterpret_cast<const char*>(scales.data()), static_cast<std::streamsize>(tensor.bytes));
    } else if (tensor.dtype == DType::u8) {
      out.write(about.data(), static_cast<std::streamsize>(tensor.bytes));
    } else {
      for (std::uint64_t done = 0; done < tensor.bytes;) {
        for (std::uint64_t& word : noise) word = state = state * 6364136223846793005u + 1442695040888963407u;
        const std::uint64_t bytes = std::min<std::uint64_t>(tensor.bytes - done, noise.size() * 8);
        out.write(reinterpret_cast<const char*>(noise.data()), static_cast<std::streamsize>(bytes));
        done += bytes;
      }
    }
  }
  if (!out.flush()) {
    fmt::print(stderr, "cannot write {}\n", path);
    std::exit(1);
  }
}

struct Unit {
  std::vector<WeightMatrix> layers;
  TensorPool pool{0};
};

std::vector<WeightMatrix> declare(ParamLoader& loader, int unit) {
  std::vector<WeightMatrix> out;
  for (std::int64_t i = 0; i < kPerUnit; ++i) out.push_back(loader.matrix(layer(unit, i) + ".weight", kWidth, kWidth));
  return out;
}

BlockUnits units_of(Device& device, const std::shared_ptr<const WeightPart>& part, int count, bool past_cache) {
  BlockUnits out;
  out.what = "units";
  for (int u = 0; u < count; ++u) {
    ParamLoader loader(*part, "benchmark", MatrixPrecision::bf16, 64);
    (void)declare(loader, u);
    out.sizes.push_back({loader.slot_bytes(device), loader.table_bytes()});
  }
  out.load = [part, past_cache](int u, const DeviceBuffer& slot, const CancelToken& cancel) -> Result<std::shared_ptr<const void>> {
    ParamLoader loader(*part, "benchmark", MatrixPrecision::bf16, 64);
    auto unit = std::make_shared<Unit>();
    unit->layers = declare(loader, u);
    auto pool = loader.load_into(slot, {2, past_cache}, &cancel);
    if (!pool.ok()) return pool.error();
    unit->pool = std::move(pool).value();
    return std::shared_ptr<const void>(std::move(unit));
  };
  return out;
}

int layers_computed = kPerUnit;

void compute(Device& device, const Unit& unit, const std::vector<float>& x) {
  Graph graph(device, "benchmark");
  ggml_tensor* y = graph.input("x", x, {kWidth, static_cast<std::int64_t>(x.size()) / kWidth});
  for (int i = 0; i < layers_computed; ++i)
    y = ops::linear(graph, {unit.layers[static_cast<std::size_t>(i)], nullptr, nullptr, nullptr}, y);
  graph.output("y", y);
  if (const auto done = graph.run(); !done.ok()) {
    fmt::print(stderr, "{}\n", done.error().text());
    std::exit(1);
  }
}

// Seconds of one pass, the first pass left out.
double seconds_of_pass(Device& device, BlockStore& store, int count, const std::vector<float>* x) {
  std::vector<double> seconds;
  for (int pass = 0; pass <= kPasses; ++pass) {
    const double start = monotonic_seconds();
    store.expect(kPasses + 1 - pass);
    for (int u = 0; u < count; ++u) {
      const BlockPin pin = take(store.pin(u));
      if (x != nullptr) compute(device, pin.as<Unit>(), *x);
    }
    if (pass > 0) seconds.push_back(monotonic_seconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FILE [GIGABYTES [ROWS [LAYERS]]]\n", argv[0]);
    return 2;
  }
  const std::string path = argv[1];
  const double gigabytes = argc > 2 ? std::atof(argv[2]) : 0.6;
  const std::int64_t rows = argc > 3 ? std::atoi(argv[3]) : 64;
  if (argc > 4) layers_computed = std::clamp(std::atoi(argv[4]), 1, static_cast<int>(kPerUnit));
  if (!std::filesystem::exists(path)) write_file(path, static_cast<int>(gigabytes * 1e9 / (kPerUnit * kWidth * kWidth) + 1));
  const auto part = take(WeightPart::open(path));
  int count = 0;
  while (part->has(layer(count, 0) + ".weight")) ++count;
  const auto device = take(Device::open("CPU"));
  const std::vector<float> x(static_cast<std::size_t>(kWidth * rows), 0.5f);
  fmt::print("{} units, {} rows\n", count, rows);
  std::uint64_t unit = 0;
  for (const bool past_cache : {false, true}) {
    // From a budget of two units to three quarters of the file, all smaller than what is resident.
    for (const double share : {0.0, 0.25, 0.5, 0.75}) {
      BlockUnits units = units_of(*device, part, count, past_cache);
      unit = BlockStore::least_bytes(units.sizes);
      const std::uint64_t budget = std::max<std::uint64_t>(2 * unit, static_cast<std::uint64_t>(share * count) * unit);
      const auto store = take(BlockStore::create(*device, units, budget));
      const double read = seconds_of_pass(*device, *store, count, nullptr);
      const double both = seconds_of_pass(*device, *store, count, &x);
      const auto facts = store->facts();
      fmt::print("{}, budget {} ({} kept of {}): read {:.3f} s, streamed {:.3f} s a pass, {} resident; peak of the process {}\n",
                 past_cache ? "past the page cache" : "through the page cache", format_bytes(budget), facts.kept, facts.units, read, both,
                 format_bytes(facts.resident_bytes), format_bytes(peak_resident_bytes()));
    }
  }
  const auto resident = take(BlockStore::create(*device, units_of(*device, part, count, false), 0));
  fmt::print("resident: {:.3f} s a pass\n", seconds_of_pass(*device, *resident, count, &x));
}
