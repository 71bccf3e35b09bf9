#include "weights/quant/layer_checks.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace tritium {
namespace {

constexpr std::int64_t kDefaultRotation = 256, kDefaultGroup = 16, kDefaultAwqGroup = 64;  // §3
constexpr std::int64_t kNvfp4Group = 16, kMxfp8Group = 32;

constexpr std::array<std::string_view, 10> kFormatNames = {"int8",     "w4a8", "w6a8",  "w4a4",  "fp8_e4m3",
                                                           "fp8_e5m2", "nf4",  "nvfp4", "mxfp8", "awq_w4a16"};

// One function per format of §3: fills `out` beyond what all have in common.
struct Job {
  const LayerFacts& facts;
  const QuantOptions& options;
  const LayerChecks& check;
  QuantDescription& quant;

  [[nodiscard]] std::int64_t rows() const { return facts.weight->shape[0]; }
  [[nodiscard]] std::int64_t stored_columns() const { return facts.weight->shape[1]; }
};
using Shape = std::vector<std::int64_t>;

Result<Shape> describe_int8(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::i8}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY(job.check.row_scale(*scale, job.rows()));
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale}));
  job.quant.format = QuantFormat::int8;
  if (job.options.convrot.value_or(false)) {
    job.quant.rotation = job.options.rotation_group.value_or(kDefaultRotation);
    TRITIUM_TRY(job.check.rotation(job.quant.rotation, job.stored_columns()));
  }
  return job.facts.weight->shape;
}

// 4 or 6 bits per weight; the width of a row and the number of groups tell which (§4.3).
Result<Shape> describe_grouped_int8(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::i8, DType::u8}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* group_scale, job.check.required(&SideTensors::group_scale));
  TRITIUM_TRY_ASSIGN(const TensorInfo* channel_scale, job.check.required(&SideTensors::channel_scale));
  TRITIUM_TRY(job.check.type(*group_scale, {DType::f8_e4m3, DType::u8, DType::f32, DType::bf16, DType::f16}));
  TRITIUM_TRY(job.check.real(*channel_scale));
  const TensorInfo& weight = *job.facts.weight;
  const std::int64_t rows = job.rows(), bytes = job.stored_columns(), group = job.options.group.value_or(kDefaultGroup);
  if (group < 4 || (16 % group != 0 && group % 16 != 0))
    return job.check.bad(weight, fmt::format("group_size {} is neither 4 or 8 nor a multiple of 16", group));
  if (group_scale->shape.size() != 2 || group_scale->shape[0] != rows)
    return job.check.bad(*group_scale, fmt::format("its shape is {}, expected [{}, K/{}]", shape_text(group_scale->shape), rows, group));

  const std::int64_t groups = group_scale->shape[1];
  const auto fits = [&](int bits) { return bytes * 8 % bits == 0 && bytes * 8 / bits % group == 0 && bytes * 8 / bits / group == groups; };
  const bool four = fits(4), six = fits(6);
  if (!four && !six)
    return job.check.bad(weight,
                         fmt::format("rows of {} bytes with {} groups of {} are neither 4 nor 6 bits per weight", bytes, groups, group));
  const std::int64_t columns = bytes * 8 / (four ? 4 : 6);
  TRITIUM_TRY(job.check.divides("the block of", six ? 32 : 16, columns));
  if (six && group % 16 != 0)
    return job.check.bad(weight, fmt::format("group_size {} is not a multiple of 16, as 6-bit codes need", group));
  TRITIUM_TRY(job.check.shape(*channel_scale, {{rows}, {rows, 1}}));
  if (const TensorInfo* codebook = job.facts.sides.codebook; codebook != nullptr) {
    if (six) return job.check.bad(*codebook, "6-bit codes have no codebook");
    TRITIUM_TRY(job.check.real(*codebook));
    TRITIUM_TRY(job.check.shape(*codebook, {{16}}));
  }
  if (const TensorInfo* correction = job.facts.sides.correction; correction != nullptr) {
    TRITIUM_TRY(job.check.real(*correction));
    TRITIUM_TRY(job.check.shape(*correction, {{groups, rows}}));
  }
  TRITIUM_TRY(
      job.check.nothing_but({&SideTensors::group_scale, &SideTensors::channel_scale, &SideTensors::codebook, &SideTensors::correction}));
  job.quant.format = six ? QuantFormat::w6a8 : QuantFormat::w4a8;
  job.quant.group = group;
  job.quant.rotation = job.options.rotation_group.value_or(kDefaultRotation);  // implied, whatever "convrot" says
  TRITIUM_TRY(job.check.rotation(job.quant.rotation, columns));
  return Shape{rows, columns};
}

Result<Shape> describe_w4a4(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::i8, DType::u8}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY(job.check.real(*scale));
  TRITIUM_TRY(job.check.shape(*scale, {{job.rows()}, {job.rows(), 1}}));
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale}));
  job.quant.format = QuantFormat::w4a4;
  job.quant.rotation = job.options.rotation_group.value_or(kDefaultRotation);
  TRITIUM_TRY(job.check.rotation(job.quant.rotation, 2 * job.stored_columns()));
  return Shape{job.rows(), 2 * job.stored_columns()};
}

Result<Shape> describe_fp8(Job& job, DType type) {
  TRITIUM_TRY(job.check.codes({type}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY(job.check.row_scale(*scale, job.rows()));
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale}));
  job.quant.format = type == DType::f8_e4m3 ? QuantFormat::fp8_e4m3 : QuantFormat::fp8_e5m2;
  return job.facts.weight->shape;
}

Result<Shape> describe_nvfp4(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::u8, DType::i8}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale_2, job.check.required(&SideTensors::scale_2));
  const std::int64_t rows = job.rows(), columns = 2 * job.stored_columns();
  TRITIUM_TRY(job.check.divides("the block of", kNvfp4Group, columns));
  TRITIUM_TRY(job.check.type(*scale, {DType::f8_e4m3, DType::u8}));
  TRITIUM_TRY(job.check.tiled_scale(*scale, rows, columns / kNvfp4Group));
  TRITIUM_TRY(job.check.real(*scale_2));
  TRITIUM_TRY(job.check.single_value(*scale_2));
  if (const TensorInfo* pre = job.facts.sides.pre_quant_scale; pre != nullptr) {
    TRITIUM_TRY(job.check.real(*pre));
    TRITIUM_TRY(job.check.shape(*pre, {{columns}}));
  }
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale, &SideTensors::scale_2, &SideTensors::pre_quant_scale}));
  job.quant.format = QuantFormat::nvfp4;
  job.quant.group = kNvfp4Group;
  return Shape{rows, columns};
}

Result<Shape> describe_mxfp8(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::f8_e4m3}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY(job.check.divides("the block of", kMxfp8Group, job.stored_columns()));
  TRITIUM_TRY(job.check.type(*scale, {DType::u8, DType::f8_e8m0}));
  TRITIUM_TRY(job.check.tiled_scale(*scale, job.rows(), job.stored_columns() / kMxfp8Group));
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale}));
  job.quant.format = QuantFormat::mxfp8;
  job.quant.group = kMxfp8Group;
  return job.facts.weight->shape;
}

Result<Shape> describe_awq(Job& job) {
  TRITIUM_TRY(job.check.codes({DType::i8, DType::u8}));
  TRITIUM_TRY_ASSIGN(const TensorInfo* scale, job.check.required(&SideTensors::scale));
  TRITIUM_TRY_ASSIGN(const TensorInfo* zeros, job.check.required(&SideTensors::zeros));
  const std::int64_t rows = job.rows(), columns = 2 * job.stored_columns(), group = job.options.group.value_or(kDefaultAwqGroup);
  if (group % 2 != 0) return job.check.bad(*job.facts.weight, fmt::format("group_size {} is odd", group));
  TRITIUM_TRY(job.check.divides("group_size", group, columns));
  for (const TensorInfo* side : {scale, zeros}) {
    TRITIUM_TRY(job.check.real(*side));
    TRITIUM_TRY(job.check.shape(*side, {{columns / group, rows}}));  // transposed
  }
  TRITIUM_TRY(job.check.nothing_but({&SideTensors::scale, &SideTensors::zeros}));
  job.quant.format = QuantFormat::awq_w4a16;
  job.quant.group = group;
  return Shape{rows, columns};
}

struct FormatRow {
  std::string_view name;
  Result<Shape> (*describe)(Job&);
};
constexpr std::array<FormatRow, 8> kFormats = {{
    {"int8_tensorwise", describe_int8},
    {"asym_w4a8_int8", describe_grouped_int8},
    {"convrot_w4a4", describe_w4a4},
    {"float8_e4m3fn", [](Job& job) { return describe_fp8(job, DType::f8_e4m3); }},
    {"float8_e5m2", [](Job& job) { return describe_fp8(job, DType::f8_e5m2); }},
    {"nvfp4", describe_nvfp4},
    {"mxfp8", describe_mxfp8},
    {"awq_w4a16", describe_awq},
}};

Result<DescribedWeight> finish(QuantDescription quant, Result<Shape> shape, const LayerFacts& facts, DescribedBy by) {
  if (!shape.ok()) return std::move(shape).error();
  quant.described_by = by;
  quant.sides = facts.sides;
  return DescribedWeight{std::move(shape).value(), quant};
}

}  // namespace

std::string_view quant_format_name(QuantFormat format) { return kFormatNames[static_cast<std::size_t>(format)]; }

Result<DescribedWeight> describe_marked(const LayerFacts& facts, const QuantOptions& options, DescribedBy by) {
  const auto* row = std::find_if(kFormats.begin(), kFormats.end(), [&](const FormatRow& r) { return r.name == options.format; });
  if (row == kFormats.end()) {
    std::vector<std::string_view> names;
    names.reserve(kFormats.size());
    for (const FormatRow& known : kFormats) names.push_back(known.name);
    return Error{ErrorCode::model,
                 fmt::format("unknown quantization format '{}', known are {}", options.format.substr(0, 80), fmt::join(names, ", ")),
                 facts.weight->name, ""};
  }
  const LayerChecks check(facts, row->name);
  QuantDescription quant;
  quant.full_precision = options.full_precision.value_or(false);
  Job job{facts, options, check, quant};
  Result<Shape> shape = row->describe(job);
  return finish(quant, std::move(shape), facts, by);
}

Result<DescribedWeight> describe_legacy_fp8(const LayerFacts& facts, bool full_precision) {
  const LayerChecks check(facts, "scaled_fp8");
  QuantDescription quant;
  quant.full_precision = full_precision;
  const QuantOptions options;
  Job job{facts, options, check, quant};
  Result<Shape> shape = describe_fp8(job, facts.weight->dtype);
  return finish(quant, std::move(shape), facts, DescribedBy::legacy_fp8);
}

Result<DescribedWeight> describe_unmarked(const LayerFacts& facts) {
  const TensorInfo& weight = *facts.weight;
  if (weight.dtype == DType::u8 || weight.dtype == DType::i8)
    return Error{ErrorCode::model,
                 fmt::format("{} {} without any description of how it is quantized", dtype_name(weight.dtype), shape_text(weight.shape)),
                 weight.name, facts.sides.absmax == nullptr ? "" : "a bitsandbytes file must have its '.quant_state.bitsandbytes__nf4'"};
  const LayerChecks check(facts, dtype_name(weight.dtype));
  TRITIUM_TRY(check.nothing_but({}));
  DescribedWeight out{weight.shape, std::nullopt};
  const bool fp8 = weight.dtype == DType::f8_e4m3 || weight.dtype == DType::f8_e5m2;
  if (!fp8 || weight.shape.size() != 2) return out;
  TRITIUM_TRY(check.codes({weight.dtype}));
  out.quant.emplace();
  out.quant->format = weight.dtype == DType::f8_e4m3 ? QuantFormat::fp8_e4m3 : QuantFormat::fp8_e5m2;
  out.quant->described_by = DescribedBy::dtype;
  out.quant->sides = facts.sides;
  return out;
}

}  // namespace tritium
