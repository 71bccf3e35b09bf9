// Filling declared tensors: stored bytes go straight into the device's memory where nothing has to be converted.
#include "base/parallel.h"
#include "base/system.h"
#include "base/try.h"
#include "device/params.h"
#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

namespace tritium {
namespace {

constexpr std::size_t kSliceBytes = std::size_t{8} << 20;  // on the device, filled by one thread at a time
constexpr std::uint64_t kSmallestMapped = 64u << 10;       // less is not worth a page of its own
constexpr int kMaxReaders = 4;                             // more do not make a disk faster

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Whether no element has an exponent of all ones; `Word` and `mask` are those of the type.
template <class Word>
bool finite_words(std::span<const std::uint8_t> bytes, Word mask) {
  bool bad = false;
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    bad |= (word & mask) == mask;
  }
  return !bad;
}

// Whether some code c has (c & mask) == mask.
bool has_code(std::span<const std::uint8_t> codes, std::uint8_t mask) {
  std::uint8_t found = 0;
  for (const std::uint8_t code : codes) found |= static_cast<std::uint8_t>((code & mask) == mask);
  return found != 0;
}

// Whether stored values, or the scales that are stored among them, are finite. Scales stored apart are checked when they are read.
bool finite_bytes(const LogicalTensor& tensor, std::span<const std::uint8_t> bytes) {
  if (tensor.quant) {
    const QuantFormat format = tensor.quant->format;
    if (format == QuantFormat::fp8_e4m3 || format == QuantFormat::mxfp8) return !has_code(bytes, 0x7F);
    return format != QuantFormat::fp8_e5m2 || !has_code(bytes, 0x7C);
  }
  const DType type = tensor.stored->dtype;
  if (type == DType::f32) return finite_words<std::uint32_t>(bytes, 0x7F800000u);
  if (type == DType::bf16) return finite_words<std::uint16_t>(bytes, 0x7F80u);
  if (type == DType::f16) return finite_words<std::uint16_t>(bytes, 0x7C00u);
  return !is_block_dtype(type) || blocks_are_finite(type, bytes);
}

}  // namespace

// Fills one tensor.
class ParamLoader::Reader {
 public:
  Reader(const ParamLoader& loader, const Item& item) : loader_(loader), item_(item), tensor_(item.tensor) {
    const bool host = ggml_backend_buffer_is_host(tensor_->buffer);
    host_ = host ? static_cast<std::uint8_t*>(tensor_->data) : nullptr;
  }

  Result<void> fill(const CancelToken* cancel) {
    if (item_.filling == Filling::computed) return fill_computed();
    TRITIUM_TRY_ASSIGN(rows_, PartRows::open(loader_.part_, item_.source, item_.cropped));
    TRITIUM_TRY(prepare());
    if (item_.mapped != nullptr) return populate(cancel);
    if (item_.direct) return read_direct(cancel);
    const std::int64_t rows = tensor_rows(), row_bytes = static_cast<std::int64_t>(ggml_nbytes(tensor_)) / std::max<std::int64_t>(1, rows);
    const std::int64_t step = std::max<std::int64_t>(1, static_cast<std::int64_t>(kSliceBytes) / std::max<std::int64_t>(1, row_bytes));
    std::mutex device;  // uploads are one at a time
    return loader_.for_slices((rows + step - 1) / step, [&](std::int64_t slice) -> Result<void> {
      if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
      const std::int64_t begin = slice * step, end = std::min(rows, begin + step);
      const auto bytes = static_cast<std::size_t>((end - begin) * row_bytes), offset = static_cast<std::size_t>(begin * row_bytes);
      if (host_ != nullptr) return fill_rows(begin, end, {host_ + offset, bytes});
      std::vector<std::uint8_t> staging(bytes);
      TRITIUM_TRY(fill_rows(begin, end, staging));
      const std::lock_guard lock(device);
      ggml_backend_tensor_set(tensor_, staging.data(), offset, bytes);
      return {};
    });
  }

 private:
  [[nodiscard]] std::int64_t tensor_rows() const { return rows_->rows(); }

  [[nodiscard]] Error not_finite() const {
    return Error{ErrorCode::model, fmt::format("'{}' of the {} contains values that are not finite", tensor_->name, loader_.what_), "",
                 "the file is damaged: download it again"};
  }

  Result<void> fill_computed() {
    TRITIUM_TRY_ASSIGN(const std::vector<float> values, item_.compute(loader_.part_));
    if (static_cast<std::int64_t>(values.size()) != ggml_nelements(tensor_))
      return Error{ErrorCode::failure,
                   fmt::format("'{}' has {} values after conversion, expected {}", tensor_->name, values.size(), ggml_nelements(tensor_)),
                   "", ""};
    if (!all_finite(values)) return not_finite();
    upload(tensor_, values);
    return {};
  }

  // Side tensors of quantized matrices.
  Result<void> prepare() {
    if (item_.filling == Filling::packed) {
      TRITIUM_TRY_ASSIGN(*item_.packed, PackedRows::open(loader_.part_, item_.source));
      if (item_.mapped != nullptr || item_.direct) item_.packed->set_file_order();
      upload_factors(item_.packed->row_scale(), item_.packed->column_factor());
    }
    if (item_.filling != Filling::encoded) return {};
    std::vector<float> row_scale;
    for (const MatrixReader& reader : rows_->readers()) {
      if (!lossless_block_type(*reader.quant())) continue;
      TRITIUM_TRY_ASSIGN(BlockEncoder encoder, BlockEncoder::create(reader));
      row_scale.insert(row_scale.end(), encoder.row_scale().begin(), encoder.row_scale().end());
      encoders_.push_back(std::move(encoder));
    }
    upload_factors(row_scale, rows_->readers().front().sides().column_factor);
    return {};
  }

  void upload_factors(std::vector<float> row_scale, const std::vector<float>& column_factor) const {
    if (item_.row_scale != nullptr) {
      row_scale.resize(static_cast<std::size_t>(ggml_nelements(item_.row_scale)), 1.0f);
      upload(item_.row_scale, row_scale);
    }
    if (item_.column_factor != nullptr) upload(item_.column_factor, column_factor);
  }

  // The stored bytes are used as they are: they only have to be read, and looked at where they are numbers. `read(first, bytes)` is given
  // one piece of the stored tensor after the other and returns where it lies then.
  Result<void> for_pieces(const CancelToken* cancel,
                          const std::function<Result<const std::uint8_t*>(std::uint64_t first, std::uint64_t bytes)>& read) const {
    const LogicalTensor& source = *item_.source.sources.front();
    const std::uint64_t all = source.stored->bytes, unit = static_cast<std::uint64_t>(dtype_block(source.stored->dtype).bytes);
    const std::uint64_t step = kSliceBytes / unit * unit;
    return loader_.for_slices(static_cast<std::int64_t>((all + step - 1) / step), [&](std::int64_t slice) -> Result<void> {
      if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
      const std::uint64_t first = static_cast<std::uint64_t>(slice) * step, bytes = std::min(step, all - first);
      TRITIUM_TRY_ASSIGN(const std::uint8_t* at, read(first, bytes));
      if (!finite_bytes(source, {at, bytes})) return not_finite();
      return {};
    });
  }

  Result<void> populate(const CancelToken* cancel) const {
    const std::uint64_t offset = item_.source.sources.front()->stored->offset;
    return for_pieces(cancel, [&](std::uint64_t first, std::uint64_t bytes) -> Result<const std::uint8_t*> {
      TRITIUM_TRY(item_.mapped->populate(offset + first, bytes));
      if (loader_.policy_.pin) TRITIUM_TRY(item_.mapped->pin(offset + first, bytes));
      return item_.mapped->data() + offset + first;
    });
  }

  Result<void> read_direct(const CancelToken* cancel) const {
    const TensorInfo& stored = *item_.source.sources.front()->stored;
    return for_pieces(cancel, [&](std::uint64_t first, std::uint64_t bytes) -> Result<const std::uint8_t*> {
      TRITIUM_TRY(loader_.part_.checkpoint().read_direct(stored, first, {host_ + first, bytes}));
      return host_ + first;
    });
  }

  Result<void> fill_rows(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
    switch (item_.filling) {
      case Filling::as_is:
      case Filling::packed:
        return copy_stored(begin, end, out);
      case Filling::encoded:
        return encode(begin, end, out);
      default:
        break;
    }
    if (item_.filling == Filling::floats && reinterpret_cast<std::uintptr_t>(out.data()) % alignof(float) == 0)
      return decode(begin, end, {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
    std::vector<float> values(static_cast<std::size_t>((end - begin) * rows_->columns()));
    TRITIUM_TRY(decode(begin, end, values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = f32_to_bf16(values[i]);
      std::memcpy(out.data() + i * sizeof(bits), &bits, sizeof(bits));
    }
    return {};
  }

  Result<void> decode(std::int64_t begin, std::int64_t end, std::span<float> out) const {
    TRITIUM_TRY(rows_->decode(begin, end, out));
    if (!all_finite(out)) return not_finite();
    return {};
  }

  Result<void> copy_stored(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
    const std::size_t row_bytes = out.size() / static_cast<std::size_t>(end - begin);
    return rows_->for_each_source_run(
        begin, end, [&](std::size_t source, std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
          const TensorInfo& stored = *rows_->readers()[source].tensor().stored;
          const auto target =
              out.subspan(static_cast<std::size_t>(position - begin) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
          TRITIUM_TRY(loader_.part_.checkpoint().read_range(stored, static_cast<std::uint64_t>(first) * row_bytes, target));
          if (!finite_bytes(rows_->readers()[source].tensor(), target)) return not_finite();
          return {};
        });
  }

  Result<void> encode(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const {
    const std::size_t row_bytes = out.size() / static_cast<std::size_t>(end - begin);
    return rows_->for_each_source_run(
        begin, end, [&](std::size_t source, std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
          const auto target =
              out.subspan(static_cast<std::size_t>(position - begin) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
          if (!encoders_.empty()) return encoders_[source].encode_rows(first, first + count, target);
          std::vector<float> values(static_cast<std::size_t>(count * rows_->columns()));
          TRITIUM_TRY(rows_->readers()[source].decode_rows(first, first + count, values));
          ggml_quantize_chunk(tensor_->type, values.data(), target.data(), 0, count, rows_->columns(), nullptr);
          return {};
        });
  }

  const ParamLoader& loader_;
  const Item& item_;
  ggml_tensor* tensor_;
  std::uint8_t* host_;
  std::optional<PartRows> rows_;
  std::vector<BlockEncoder> encoders_;  // one per source; empty: quantized again
};

Result<void> ParamLoader::for_slices(std::int64_t slices, const std::function<Result<void>(std::int64_t)>& work) const {
  return for_each_parallel(slices, readers_ > 0 ? readers_ : std::min(usable_cpus(), kMaxReaders), work);
}

bool ParamLoader::as_in_file(const Item& item) {
  const bool packed = item.filling == Filling::packed;
  if (item.source.sources.size() != 1 || (!packed && (item.filling != Filling::as_is || !item.source.order.empty()))) return false;
  const TensorInfo& stored = *item.source.sources.front()->stored;
  // Packed rows are read byte by byte; others by kernels that want whole elements.
  return stored.bytes >= kSmallestMapped && (packed || stored.offset % sizeof(float) == 0);
}

Result<void> ParamLoader::map_values() {
  for (Item& item : items_) {
    if (!as_in_file(item)) continue;
    const TensorInfo& stored = *item.source.sources.front()->stored;
    auto mapping = part_.checkpoint().mapping(stored);
    if (!mapping.ok()) return {};  // address space may be limited: values are copied
    item.mapped = std::move(mapping).value();
    pool_.bind(item.tensor, item.mapped, item.mapped->data(), item.mapped->bytes(), item.mapped->data() + stored.offset);
  }
  return {};
}

Result<TensorPool> ParamLoader::load(Device& device, const CancelToken* cancel, const LoadProgress& progress) {
  TRITIUM_TRY(check());
  if (device.dry()) return std::move(pool_);
  if (device.is_cpu()) TRITIUM_TRY(map_values());
  TRITIUM_TRY(pool_.allocate(device, "the " + what_, TensorPool::Contents::undefined));
  const std::uint64_t total = pool_.bytes();
  std::uint64_t done = 0;
  for (const Item& item : items_) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
    TRITIUM_TRY(Reader(*this, item).fill(cancel));
    done += ggml_nbytes(item.tensor);
    if (progress) progress(done, total);
  }
  items_.clear();
  return std::move(pool_);
}

Result<TensorPool> ParamLoader::load_into(const DeviceBuffer& slot, Refill how, const CancelToken* cancel) {
  TRITIUM_TRY(check());
  TensorPool::Places places;
  for (Item& item : items_) {
    if (!how.past_cache || !slot.is_host() || !as_in_file(item)) continue;
    const TensorInfo& stored = *item.source.sources.front()->stored;
    item.direct = stored.bytes == ggml_nbytes(item.tensor);
    if (item.direct) places.emplace(item.tensor, stored.offset);
  }
  TRITIUM_TRY(pool_.place(slot, places));
  readers_ = how.readers;
  for (const Item& item : items_) {
    if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
    TRITIUM_TRY(Reader(*this, item).fill(cancel));
    if (!how.past_cache) continue;
    for (const LogicalTensor* source : item.source.sources) part_.checkpoint().forget_pages(*source->stored);
  }
  items_.clear();
  return std::move(pool_);
}

}  // namespace tritium
