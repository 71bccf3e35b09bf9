#include "weights/part.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {

TensorPlace same_name(const std::string& official) { return {{official}, {}}; }

std::vector<std::int64_t> PlacedTensor::shape() const {
  if (sources.empty()) return {};
  std::vector<std::int64_t> out = sources.front()->shape;
  for (std::size_t i = 1; i < sources.size(); ++i)
    if (!out.empty() && !sources[i]->shape.empty()) out[0] += sources[i]->shape[0];
  return out;
}

std::uint64_t PlacedTensor::bytes() const {
  std::uint64_t sum = 0;
  for (const LogicalTensor* source : sources) sum += source->bytes;
  return sum;
}

Result<std::shared_ptr<const WeightPart>> WeightPart::open(std::shared_ptr<const Checkpoint> checkpoint, Naming naming) {
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  return wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
}

Result<std::shared_ptr<const WeightPart>> WeightPart::open(const std::filesystem::path& path, Naming naming) {
  TRITIUM_TRY_ASSIGN(Checkpoint checkpoint, Checkpoint::open(path));
  return open(std::make_shared<const Checkpoint>(std::move(checkpoint)), std::move(naming));
}

std::shared_ptr<const WeightPart> WeightPart::wrap(std::shared_ptr<const Checkpoint> checkpoint, LogicalTensors tensors, Naming naming) {
  return std::shared_ptr<const WeightPart>(new WeightPart(std::move(checkpoint), std::move(tensors), std::move(naming)));
}

PlacedTensor WeightPart::find(const std::string& official) const {
  TensorPlace place = naming_(official);
  PlacedTensor out{{}, std::move(place.order)};
  for (const std::string& name : place.tensors) {
    const LogicalTensor* tensor = tensors_.find(name);
    if (tensor == nullptr) return {};
    out.sources.push_back(tensor);
  }
  return out;
}

std::optional<std::vector<std::int64_t>> WeightPart::shape(const std::string& official) const {
  const PlacedTensor tensor = find(official);
  if (!tensor.found()) return std::nullopt;
  return tensor.shape();
}

Result<std::vector<float>> WeightPart::read_f32(const std::string& official) const {
  const PlacedTensor tensor = find(official);
  if (!tensor.found()) return Error{ErrorCode::model, fmt::format("tensor '{}' is missing in '{}'", official, where()), official, ""};
  TRITIUM_TRY_ASSIGN(const PartRows rows, PartRows::open(*this, tensor));
  std::vector<float> out(static_cast<std::size_t>(rows.rows() * rows.columns()));
  TRITIUM_TRY(rows.decode(0, rows.rows(), out));
  return out;
}

std::string WeightPart::where() const { return checkpoint_->files().empty() ? "" : checkpoint_->files().front().path().string(); }

Result<PartRows> PartRows::open(const WeightPart& part, const PlacedTensor& tensor, const std::vector<std::int64_t>& shape) {
  PartRows out;
  for (const LogicalTensor* source : tensor.sources) {
    TRITIUM_TRY_ASSIGN(MatrixReader reader, MatrixReader::open(part.checkpoint(), *source, shape));
    if (!out.readers_.empty() && reader.columns() != out.readers_.front().columns())
      return Error{ErrorCode::model,
                   fmt::format("'{}' has {} columns, '{}' has {}", out.readers_.front().tensor().name, out.readers_.front().columns(),
                               reader.tensor().name, reader.columns()),
                   source->name, ""};
    out.rows_ += reader.rows();
    out.readers_.push_back(std::move(reader));
  }
  if (out.readers_.empty()) return Error{ErrorCode::failure, "a tensor without sources has no rows", "", ""};
  TRITIUM_TRY(check_row_order(tensor.order, out.rows_));
  out.order_ = tensor.order;
  return out;
}

Result<void> PartRows::decode(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  const auto width = static_cast<std::size_t>(columns());
  return for_each_source_run(begin, end, [&](std::size_t source, std::int64_t first, std::int64_t count, std::int64_t position) {
    return readers_[source].decode_rows(
        first, first + count, out.subspan(static_cast<std::size_t>(position - begin) * width, static_cast<std::size_t>(count) * width));
  });
}

}  // namespace tritium
