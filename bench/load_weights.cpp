// How fast int8 weights come from a file into memory, beside `cat` of the same file, and how much memory that takes.
//
//   bench_load_weights FILE [GIGABYTES]     writes FILE first if it is not there (default 3)
//
// Medians of five alternating runs, the file being in the page cache.
#include "base/system.h"
#include "device/params.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace {

using namespace tritium;

constexpr std::int64_t kOut = 28672, kIn = 5376;  // mlp.fc1 of the released model
constexpr std::string_view kMarker = R"({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256})";

std::string layer(int i) { return fmt::format("blocks.{}.mlp.fc1", i); }

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.text());
  std::exit(1);
}
template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}

void write_file(const std::string& path, int layers) {
  std::vector<TensorDeclaration> tensors;
  for (int i = 0; i < layers; ++i) {
    tensors.push_back({layer(i) + ".weight", DType::i8, {kOut, kIn}});
    tensors.push_back({layer(i) + ".weight_scale", DType::f32, {kOut, 1}});
    tensors.push_back({layer(i) + ".comfy_quant", DType::u8, {static_cast<std::int64_t>(kMarker.size())}});
  }
  const FileLayout layout = take(layout_file(Container::safetensors, tensors, {}));
  std::ofstream out(path, std::ios::binary);
  out << layout.header;
  std::vector<std::uint64_t> noise(std::size_t{1} << 17);
  std::uint64_t state = 1;
  for (const TensorInfo& tensor : layout.tensors) {
    out.seekp(static_cast<std::streamoff>(tensor.offset));
    if (tensor.dtype == DType::u8) {
      out << kMarker;
    } else if (tensor.dtype == DType::f32) {
      const std::vector<float> scales(static_cast<std::size_t>(kOut), 0.01f);
      out.write(reinterpret_cast<const char*>(scales.data()), static_cast<std::streamsize>(tensor.bytes));
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

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of_cat(const std::string& path) {
  const double start = monotonic_seconds();
  if (std::system(("cat '" + path + "' > /dev/null").c_str()) != 0) std::exit(1);
  return monotonic_seconds() - start;
}

double seconds_of_loading(const std::string& path, Device& device) {
  const double start = monotonic_seconds();
  const auto part = take(WeightPart::open(path));
  ParamLoader loader(*part, "benchmark", {MatrixPrecision::bf16, MatrixForm::packed});
  for (int i = 0; part->has(layer(i) + ".weight"); ++i) (void)loader.matrix(layer(i) + ".weight", kOut, kIn);
  const TensorPool pool = take(loader.load(device));
  return monotonic_seconds() - start;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} FILE [GIGABYTES]\n", argv[0]);
    return 2;
  }
  const std::string path = argv[1];
  const double gigabytes = argc > 2 ? std::atof(argv[2]) : 3;
  if (!std::filesystem::exists(path)) write_file(path, static_cast<int>(gigabytes * 1e9 / (kOut * kIn) + 1));
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  const auto device = take(Device::open("CPU"));
  std::vector<double> cat, load;
  (void)seconds_of_cat(path);
  for (int run = 0; run < 5; ++run) {
    cat.push_back(seconds_of_cat(path));
    load.push_back(seconds_of_loading(path, *device));
  }
  fmt::print("{:.2f} GB: cat {:.2f} GB/s, load {:.2f} GB/s = {:.0f} % of cat; peak memory {} = file + {:.0f} MB\n", bytes / 1e9,
             bytes / median(cat) / 1e9, bytes / median(load) / 1e9, 100 * median(cat) / median(load), format_bytes(peak_resident_bytes()),
             (static_cast<double>(peak_resident_bytes()) - bytes) / 1e6);
}
