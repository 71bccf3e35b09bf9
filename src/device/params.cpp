// Declaring tensors: what there is, what it will take, and what is wrong with it.
#include "device/params.h"

#include "base/try.h"
#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <numeric>

namespace tritium {
namespace {

constexpr std::size_t kProblemsShown = 8;

using Shape = std::vector<std::int64_t>;

// GGUF has four dimensions: the two outermost of a 3-D convolution are stored as one (spec/weights.md §2.3).
bool is_shape(const Shape& have, const Shape& wanted) {
  if (have == wanted) return true;
  return wanted.size() > 4 && have.size() == wanted.size() - 1 && have[0] == wanted[0] * wanted[1] &&
         std::equal(have.begin() + 1, have.end(), wanted.begin() + 2);
}

bool is_padded_nvfp4(const PlacedTensor& tensor, const Shape& wanted) {
  const LogicalTensor& source = *tensor.sources.front();
  if (tensor.sources.size() != 1 || !source.quant || source.quant->format != QuantFormat::nvfp4 || wanted.size() != 2) return false;
  const auto fits = [&](std::size_t i) { return source.shape[i] == wanted[i] || source.shape[i] == (wanted[i] + 15) / 16 * 16; };
  return fits(0) && fits(1);
}

// The type of blocks that hold a quantized matrix for devices that multiply them natively.
ggml_type block_type(const QuantDescription& quant) {
  const std::optional<BlockType> lossless = lossless_block_type(quant);
  if (!lossless) return GGML_TYPE_Q8_0;
  switch (*lossless) {
    case BlockType::q8_0:
      return GGML_TYPE_Q8_0;
    case BlockType::q4_0:
      return GGML_TYPE_Q4_0;
    case BlockType::q4_1:
      return GGML_TYPE_Q4_1;
    case BlockType::nvfp4:
      return GGML_TYPE_NVFP4;
    case BlockType::bf16:
      return GGML_TYPE_BF16;
  }
  return GGML_TYPE_Q8_0;
}

// The type of ggml that holds these rows as they are, or as its own blocks.
std::optional<ggml_type> native_type(const PlacedTensor& tensor, std::int64_t in) {
  const LogicalTensor& first = *tensor.sources.front();
  if (!first.quant) {
    const auto id = ggml_id(first.stored->dtype);
    return id ? std::optional(static_cast<ggml_type>(*id)) : std::nullopt;
  }
  const ggml_type type = block_type(*first.quant);
  return tensor.order.empty() && in % ggml_blck_size(type) == 0 ? std::optional(type) : std::nullopt;
}

bool is(const LogicalTensor& tensor, DType type) { return !tensor.quant && tensor.stored->dtype == type; }

}  // namespace

ParamLoader::ParamLoader(const WeightPart& part, std::string what, MatrixPolicy policy, std::size_t max_params)
    : part_(part), what_(std::move(what)), policy_(policy), pool_(max_params) {}

PlacedTensor ParamLoader::require(const std::string& name, const Shape& shape) {
  PlacedTensor tensor = part_.find(name);
  if (!tensor.found()) {
    problems_.push_back(fmt::format("'{}' {} is missing", name, shape_text(shape)));
  } else if (const Shape have = tensor.shape(); !is_shape(have, shape) && !is_padded_nvfp4(tensor, shape)) {
    problems_.push_back(fmt::format("'{}' is {}, expected {}", name, shape_text(have), shape_text(shape)));
    return {};
  }
  for (const LogicalTensor* source : tensor.sources) {
    const DType type = source->stored->dtype;
    if (source->quant || type > DType::u64) continue;  // the integers come first
    problems_.push_back(fmt::format("'{}' is {}, expected a floating-point type or a described quantization", name, dtype_name(type)));
    return {};
  }
  return tensor;
}

ggml_tensor* ParamLoader::add(const std::string& name, ggml_type type, Shape shape, Item item) {
  std::reverse(shape.begin(), shape.end());
  item.tensor = pool_.add(name, type, shape);
  items_.push_back(std::move(item));
  return items_.back().tensor;
}

ggml_tensor* ParamLoader::tensor(const std::string& name, Shape shape) {
  Item item;
  item.source = require(name, shape);
  return add(name, GGML_TYPE_F32, std::move(shape), std::move(item));
}

ggml_tensor* ParamLoader::transformed(const std::string& name, const Shape& shape, Shape stored_shape, Transform transform) {
  require(name, shape);
  return computed(name, std::move(stored_shape),
                  [name, transform = std::move(transform)](const WeightPart& part) -> Result<std::vector<float>> {
                    TRITIUM_TRY_ASSIGN(std::vector<float> values, part.read_f32(name));
                    return transform ? transform(std::move(values)) : std::move(values);
                  });
}

ggml_tensor* ParamLoader::computed(const std::string& name, Shape stored_shape, Compute compute) {
  Item item;
  item.filling = Filling::computed;
  item.compute = std::move(compute);
  return add(name, GGML_TYPE_F32, std::move(stored_shape), std::move(item));
}

WeightMatrix ParamLoader::float_matrix(const std::string& name, std::int64_t out, std::int64_t in, const Shape& file_shape) {
  Item item;
  item.source = require(name, file_shape.empty() ? Shape{out, in} : file_shape);
  return add(name, GGML_TYPE_F32, {out, in}, std::move(item));
}

WeightMatrix ParamLoader::matrix(const std::string& name, std::int64_t out, std::int64_t in, const Shape& file_shape) {
  return declared_matrix(name, out, in, file_shape, {});
}

WeightMatrix ParamLoader::autocast_matrix(const std::string& name, std::int64_t out, std::int64_t in) {
  Item item;
  item.autocast = true;
  return declared_matrix(name, out, in, {}, std::move(item));
}

WeightMatrix ParamLoader::declared_matrix(const std::string& name, std::int64_t out, std::int64_t in, const Shape& file_shape, Item item) {
  item.source = require(name, file_shape.empty() ? Shape{out, in} : file_shape);
  if (!item.source.found()) return {};
  // Rows of another shape, or cropped ones, are not rows of the file.
  if (file_shape.empty() && item.source.shape() == Shape{out, in} && PackedRows::possible(item.source)) {
    if (policy_.form == MatrixForm::packed) return packed_matrix(name, out, in, std::move(item));
    if (const auto type = native_type(item.source, in)) return native_matrix(name, out, in, *type, std::move(item));
  }
  if (file_shape.empty() && item.source.shape() != Shape{out, in}) item.cropped = {out, in};
  return plain_matrix(name, out, in, std::move(item));
}

WeightMatrix ParamLoader::packed_matrix(const std::string& name, std::int64_t out, std::int64_t in, Item item) {
  const LogicalTensor& first = *item.source.sources.front();
  WeightMatrix matrix;
  item.filling = Filling::packed;
  matrix.packed = item.packed = std::make_shared<PackedRows>(in);
  matrix.product = policy_.precision;
  if (matrix.product == MatrixPrecision::int8 && !PackedRows::meant_for_integers(item.source)) matrix.product = MatrixPrecision::bf16;
  for (const LogicalTensor* source : item.source.sources) table_bytes_ += source->bytes - source->stored->bytes;
  add_factors(name, out, in, item, matrix);
  const std::int64_t row_bytes = static_cast<std::int64_t>(first.stored->bytes) / first.shape[0];
  matrix.values = add(name, GGML_TYPE_I8, {out, row_bytes}, std::move(item));
  return matrix;
}

WeightMatrix ParamLoader::native_matrix(const std::string& name, std::int64_t out, std::int64_t in, ggml_type type, Item item) {
  const LogicalTensor& first = *item.source.sources.front();
  WeightMatrix matrix;
  item.filling = first.quant ? Filling::encoded : Filling::as_is;
  // What has to be quantized again is taken in the basis of the model, without factors.
  if (first.quant && lossless_block_type(*first.quant)) add_factors(name, out, in, item, matrix);
  matrix.values = add(name, type, {out, in}, std::move(item));
  return matrix;
}

WeightMatrix ParamLoader::plain_matrix(const std::string& name, std::int64_t out, std::int64_t in, Item item) {
  const auto all = [&](DType type) {
    return std::all_of(item.source.sources.begin(), item.source.sources.end(), [type](const LogicalTensor* t) { return is(*t, type); });
  };
  const bool kept = all(DType::f32) && !(item.autocast && policy_.form == MatrixForm::packed);
  const bool wide = policy_.precision == MatrixPrecision::f32 || kept || (all(DType::f16) && policy_.form == MatrixForm::blocks);
  item.filling = wide ? Filling::floats : Filling::bfloats;
  if (wide ? all(DType::f32) : all(DType::bf16)) item.filling = Filling::as_is;
  return add(name, wide ? GGML_TYPE_F32 : GGML_TYPE_BF16, {out, in}, std::move(item));
}

void ParamLoader::add_factors(const std::string& name, std::int64_t out, std::int64_t in, Item& item, WeightMatrix& matrix) {
  const LogicalTensor& first = *item.source.sources.front();
  if (!first.quant) return;
  const QuantDescription& quant = *first.quant;
  matrix.rotation = quant.rotation;
  const SideTensors& sides = quant.sides;
  const bool scales_of_groups = quant.format == QuantFormat::awq_w4a16 || quant.format == QuantFormat::mxfp8 || sides.correction != nullptr;
  const bool scaled = std::any_of(item.source.sources.begin(), item.source.sources.end(), [](const LogicalTensor* source) {
    return source->quant->sides.scale != nullptr || source->quant->sides.channel_scale != nullptr;
  });
  if (scaled && !scales_of_groups) item.row_scale = matrix.row_scale = pool_.add(name + ".row_scale", GGML_TYPE_F32, {out});
  if (sides.pre_quant_scale != nullptr) item.column_factor = matrix.column_factor = pool_.add(name + ".column_factor", GGML_TYPE_F32, {in});
}

Result<void> ParamLoader::check() const {
  if (problems_.empty()) return {};
  const std::span shown(problems_.data(), std::min(problems_.size(), kProblemsShown));
  std::string message = fmt::format("the {} does not match its configuration: {}", what_, fmt::join(shown, "; "));
  if (problems_.size() > shown.size()) message += fmt::format("; and {} more", problems_.size() - shown.size());
  const std::string where = part_.where();
  return Error{ErrorCode::model, std::move(message), "", where.empty() ? "" : "in '" + where + "'"};
}

}  // namespace tritium
