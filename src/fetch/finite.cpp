#include "fetch/finite.h"

#include "base/system.h"
#include "base/try.h"
#include "weights/quant/matrix_reader.h"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

namespace tritium::fetch {
namespace {

constexpr std::int64_t kValuesAtOnce = 1 << 18;

bool is_float(DType type) {
  switch (type) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::i16:
    case DType::u16:
    case DType::i32:
    case DType::u32:
    case DType::i64:
    case DType::u64:
      return false;
    default:
      return true;
  }
}

Result<void> check_piece(const LogicalTensor& tensor, std::span<const float> values, std::int64_t first) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  if (bad == values.end()) return {};
  return Error{ErrorCode::model, fmt::format("value {} of {} is {}", first + (bad - values.begin()), tensor.elements(), *bad), tensor.name,
               ""};
}

// Elements as they lie in the file.
Result<void> check_plain(const Checkpoint& checkpoint, const LogicalTensor& tensor, const CancelToken* cancel) {
  const DTypeBlock block = dtype_block(tensor.stored->dtype);
  const std::int64_t total = tensor.stored->elements(), step = std::max<std::int64_t>(1, kValuesAtOnce / block.values) * block.values;
  std::vector<std::uint8_t> bytes;
  std::vector<float> values;
  for (std::int64_t first = 0; first < total; first += step) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("the check of values"));
    const std::int64_t count = std::min(step, total - first);
    bytes.resize(static_cast<std::size_t>(count / block.values * block.bytes));
    values.resize(static_cast<std::size_t>(count));
    TRITIUM_TRY(checkpoint.read_range(*tensor.stored, static_cast<std::uint64_t>(first / block.values * block.bytes), bytes));
    convert_to_f32(tensor.stored->dtype, bytes, values);
    TRITIUM_TRY(check_piece(tensor, values, first));
  }
  return {};
}

Result<void> check_matrix(const Checkpoint& checkpoint, const LogicalTensor& tensor, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(const MatrixReader reader, MatrixReader::open(checkpoint, tensor));  // checks the scales
  const std::int64_t rows = std::max<std::int64_t>(1, kValuesAtOnce / std::max<std::int64_t>(1, reader.columns()));
  std::vector<float> values;
  for (std::int64_t row = 0; row < reader.rows(); row += rows) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("the check of values"));
    const std::int64_t end = std::min(reader.rows(), row + rows);
    values.resize(static_cast<std::size_t>((end - row) * reader.columns()));
    TRITIUM_TRY(reader.decode_rows(row, end, values));
    TRITIUM_TRY(check_piece(tensor, values, row * reader.columns()));
  }
  return {};
}

}  // namespace

Result<std::map<std::string, std::string>> check_values(const LogicalTensors& tensors,
                                                        const std::function<bool(const std::string&)>& wanted,
                                                        const std::function<void(std::uint64_t)>& looked, const CancelToken* cancel) {
  struct Item {
    const LogicalTensor* tensor;
    std::string file;
  };
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors.all()) {
    std::string file = file_holding(tensors.checkpoint(), tensor.stored->name);
    if (wanted(file)) items.push_back({&tensor, std::move(file)});
  }
  std::map<std::string, std::string> problems;
  std::mutex mutex;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < items.size() && (cancel == nullptr || !cancel->cancelled()); i = next++) {
      const LogicalTensor& tensor = *items[i].tensor;
      Result<void> checked;
      if (tensor.quant) {
        checked = check_matrix(tensors.checkpoint(), tensor, cancel);
      } else if (is_float(tensor.stored->dtype)) {
        checked = check_plain(tensors.checkpoint(), tensor, cancel);
      }
      looked(tensor.bytes);
      if (checked.ok()) continue;
      const std::lock_guard lock(mutex);
      problems.try_emplace(items[i].file, checked.error().text());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < usable_cpus(); ++t) threads.emplace_back(work);
  }
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("the check of values"));
  return problems;
}

}  // namespace tritium::fetch
