// Matrices multiplied in the form that files keep them in. Expected: products in double precision with rows that the file reader decodes.
#include "base/try.h"
#include "doctor/probe.h"
#include "doctor/stored_matrix.h"
#include "weights/synth/write.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cmath>

namespace tritium::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMatrix = "blocks.0.attn.out_proj.weight";

// A folder that is gone at the end of the scope.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() = default;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
  Result<void> create() {
    std::error_code code;
    std::string pattern = (fs::temp_directory_path(code) / "tritium-doctor.XXXXXX").string();
    if (code || ::mkdtemp(pattern.data()) == nullptr)
      return Error{ErrorCode::failure, "there is no folder for temporary files", "", "set TMPDIR"};
    path = pattern;
    return {};
  }
};

}  // namespace

Result<StoredMatrix> StoredMatrix::make(Device& device, const std::string& format, MatrixPrecision precision) {
  SynthOptions options;
  const auto target = target_format(format);
  if (!target) return Error{ErrorCode::failure, fmt::format("'{}' is no weight format", format), "", ""};
  options.format = *target;
  options.container = target->block_type() ? Container::gguf : Container::safetensors;
  options.threads = device.threads();
  SynthPart content;
  content.tensors.push_back(
      {kMatrix, {kOut, kIn}, {0, static_cast<float>(1 / std::sqrt(static_cast<double>(kIn))), 0, 0, {}}, DType::bf16});
  TemporaryFolder folder;
  TRITIUM_TRY(folder.create());
  const fs::path file = folder.path / "matrix";
  TRITIUM_TRY(write_synthetic_part(content, file, options));
  TRITIUM_TRY_ASSIGN(std::shared_ptr<const WeightPart> part, WeightPart::open(file));
  const MatrixForm form = device.fast_kernels() ? MatrixForm::packed : MatrixForm::blocks;
  ParamLoader loader(*part, "matrix", {precision, form});
  const WeightMatrix matrix = loader.matrix(kMatrix, kOut, kIn);
  TRITIUM_TRY_ASSIGN(TensorPool pool, loader.load(device));
  StoredMatrix out(std::move(part), std::move(pool));
  out.matrix = matrix;
  // Devices may also quantize activations to multiply blocks.
  out.exact = form == MatrixForm::packed;
  return out;
}

Result<std::vector<float>> StoredMatrix::row(std::int64_t index) const {
  TRITIUM_TRY_ASSIGN(const PartRows rows, PartRows::open(*part_, part_->find(kMatrix)));
  std::vector<float> out(static_cast<std::size_t>(rows.columns()));
  TRITIUM_TRY(rows.decode(index, index + 1, out));
  return out;
}

namespace {

constexpr std::int64_t kRows = 65, kRowsChecked = 3, kColumnsChecked = 31;

Result<Comparison> check(Bench& bench, const std::string& format, MatrixPrecision precision) {
  TRITIUM_TRY_ASSIGN(const StoredMatrix stored, StoredMatrix::make(bench.device(), format, precision));
  const Values input(1, 4);
  TRITIUM_TRY_ASSIGN(ggml_tensor * x, bench.tensor({StoredMatrix::kIn, kRows}, input));
  const ops::Linear layer{stored.matrix, nullptr, nullptr, nullptr};
  TRITIUM_TRY_ASSIGN(const std::vector<float> y, bench.run([&](Graph& graph) { return bench.operations().linear(graph, layer, x); }));
  double tolerance = 2 * product_tolerance(StoredMatrix::kIn);                                    // the rotation of the input adds its own
  if (precision == MatrixPrecision::int8) tolerance += 2 * blocks_tolerance(StoredMatrix::kIn);   // one scale for all of a row
  if (precision != MatrixPrecision::f32) tolerance += 2 * rounding_tolerance(StoredMatrix::kIn);  // of the input and of decoded weights
  if (!stored.exact) tolerance += blocks_tolerance(StoredMatrix::kIn);
  Comparison out;
  for (const std::int64_t column : picked(StoredMatrix::kOut, kColumnsChecked)) {
    TRITIUM_TRY_ASSIGN(const std::vector<float> weights, stored.row(column));
    for (const std::int64_t row : picked(kRows, kRowsChecked)) {
      Expected expected;
      expected.add_product(input.at(row * StoredMatrix::kIn), weights.data(), StoredMatrix::kIn);
      out.check(y[static_cast<std::size_t>(row * StoredMatrix::kOut + column)], expected, tolerance);
    }
  }
  return out;
}

}  // namespace

std::vector<Probe> stored_matrix_probes() {
  std::vector<Probe> out;
  const auto add = [&](const char* format, MatrixPrecision precision, bool thorough) {
    out.push_back({"linear", fmt::format("transformer out 7168->5376, {}, multiplied in {}", format, precision_name(precision)),
                   std::uint64_t{2} * StoredMatrix::kOut * StoredMatrix::kIn, true, thorough,
                   [name = std::string(format), precision](Bench& bench) { return check(bench, name, precision); }});
  };
  for (const char* format : {"int8", "w4a8", "q4_k", "fp8", "nf4", "q8_0"}) add(format, MatrixPrecision::bf16, false);
  for (const char* format : {"int8-convrot", "w4a8"}) add(format, MatrixPrecision::int8, false);
  for (const char* format : {"int8-convrot", "q6_k", "q5_k", "q3_k", "q2_k"}) add(format, MatrixPrecision::bf16, true);
  for (const char* format : {"int8", "int8-convrot", "w4a8", "fp8", "nf4", "q8_0", "q6_k", "q4_k"}) add(format, MatrixPrecision::f32, true);
  return out;
}

}  // namespace tritium::doctor
