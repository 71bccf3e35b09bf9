#include "device/params.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr std::size_t kMaxParams = 8192;  // the largest part has about 1100 tensors
constexpr std::size_t kProblemsShown = 8;

std::vector<std::uint16_t> to_bf16(std::span<const float> values) {
  std::vector<std::uint16_t> out(values.size());
  std::transform(values.begin(), values.end(), out.begin(), f32_to_bf16);
  return out;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

ParamLoader::ParamLoader(const Checkpoint& checkpoint, std::string what, MatrixPrecision precision)
    : checkpoint_(checkpoint), what_(std::move(what)), precision_(precision), pool_(kMaxParams) {}

const TensorInfo* ParamLoader::expect(const std::string& name, const std::vector<std::int64_t>& shape) {
  const TensorInfo* info = checkpoint_.find(name);
  if (info == nullptr) {
    problems_.push_back(fmt::format("'{}' {} is missing", name, shape_text(shape)));
  } else if (info->shape != shape) {
    problems_.push_back(fmt::format("'{}' is {}, expected {}", name, shape_text(info->shape), shape_text(shape)));
    return nullptr;
  } else if (info->dtype != DType::f32 && info->dtype != DType::bf16 && info->dtype != DType::f16) {
    problems_.push_back(fmt::format("'{}' is {}, expected BF16, F16 or F32", name, dtype_name(info->dtype)));
    return nullptr;
  }
  return info;
}

void ParamLoader::require(const std::string& name, const std::vector<std::int64_t>& shape) { expect(name, shape); }

ggml_tensor* ParamLoader::add(const std::string& name, ggml_type type, std::vector<std::int64_t> stored_shape, Item item) {
  std::reverse(stored_shape.begin(), stored_shape.end());
  item.tensor = pool_.add(name, type, stored_shape);
  items_.push_back(std::move(item));
  return items_.back().tensor;
}

ggml_tensor* ParamLoader::matrix(const std::vector<Source>& sources, std::vector<std::int64_t> stored_shape, Transform transform) {
  Item item{nullptr, {}, std::move(transform), {}};
  bool keep_bf16 = precision_ == MatrixPrecision::bf16;
  for (const Source& source : sources) {
    const TensorInfo* info = expect(source.name, source.shape);
    keep_bf16 = keep_bf16 && info != nullptr && info->dtype == DType::bf16;
    item.sources.push_back(info);
  }
  return add(sources.front().name, keep_bf16 ? GGML_TYPE_BF16 : GGML_TYPE_F32, std::move(stored_shape), std::move(item));
}

ggml_tensor* ParamLoader::matrix(const std::string& name, std::vector<std::int64_t> shape) {
  return matrix({Source{name, shape}}, shape, {});
}

ggml_tensor* ParamLoader::tensor(const std::string& name, std::vector<std::int64_t> shape) {
  const TensorInfo* source = expect(name, shape);
  return add(name, GGML_TYPE_F32, std::move(shape), {nullptr, {source}, {}, {}});
}

ggml_tensor* ParamLoader::computed(const std::string& name, std::vector<std::int64_t> stored_shape, Compute compute) {
  return add(name, GGML_TYPE_F32, std::move(stored_shape), {nullptr, {}, {}, std::move(compute)});
}

Result<std::vector<float>> ParamLoader::values_of(const Item& item) const {
  if (item.compute) return item.compute(checkpoint_);
  std::vector<float> values;
  for (const TensorInfo* source : item.sources) {
    TRITIUM_TRY_ASSIGN(std::vector<float> part, checkpoint_.read_f32(*source));
    if (values.empty())
      values = std::move(part);
    else
      values.insert(values.end(), part.begin(), part.end());
  }
  return item.transform ? item.transform(std::move(values)) : std::move(values);
}

Result<void> ParamLoader::check() const {
  if (problems_.empty()) return {};
  const std::span shown(problems_.data(), std::min(problems_.size(), kProblemsShown));
  std::string message = fmt::format("the {} does not match its configuration: {}", what_, fmt::join(shown, "; "));
  if (problems_.size() > shown.size()) message += fmt::format("; and {} more", problems_.size() - shown.size());
  const std::string where = checkpoint_.files().empty() ? "" : checkpoint_.files().front().path().string();
  return Error{ErrorCode::model, std::move(message), "", where.empty() ? "" : "in '" + where + "'"};
}

Result<TensorPool> ParamLoader::load(Device& device, const CancelToken* cancel, const LoadProgress& progress) {
  TRITIUM_TRY(check());
  TRITIUM_TRY(pool_.allocate(device, "the " + what_));
  const std::uint64_t total = pool_.bytes();
  std::uint64_t done = 0;
  for (const Item& item : items_) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
    TRITIUM_TRY_ASSIGN(const std::vector<float> values, values_of(item));
    if (static_cast<std::int64_t>(values.size()) != ggml_nelements(item.tensor))
      return Error{
          ErrorCode::failure,
          fmt::format("'{}' has {} values after conversion, expected {}", item.tensor->name, values.size(), ggml_nelements(item.tensor)),
          "", ""};
    if (!all_finite(values))
      return Error{ErrorCode::model, fmt::format("'{}' of the {} contains values that are not finite", item.tensor->name, what_), "",
                   "the file is damaged: download it again"};
    if (item.tensor->type == GGML_TYPE_BF16) {
      const std::vector<std::uint16_t> bits = to_bf16(values);
      ggml_backend_tensor_set(item.tensor, bits.data(), 0, bits.size() * sizeof(bits[0]));
    } else {
      upload(item.tensor, values);
    }
    done += ggml_nbytes(item.tensor);
    if (progress) progress(done, total);
  }
  items_.clear();
  return std::move(pool_);
}

}  // namespace tritium
