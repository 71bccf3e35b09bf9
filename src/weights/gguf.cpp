#include "weights/gguf.h"

#include "base/try.h"
#include "weights/ggml_types.h"
#include "weights/gguf_cursor.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace tritium {
namespace {

constexpr std::string_view kMagic = "GGUF", kAlignmentKey = "general.alignment", kShapeKey = "comfy.gguf.orig_shape.";
constexpr std::uint64_t kHeaderLimit = 256u << 20;
constexpr std::uint64_t kMaxTensors = 1'000'000, kMaxPairs = 1'000'000;
constexpr std::uint64_t kMaxNameBytes = 512, kMaxKeyBytes = 65535, kMaxStringBytes = 16u << 20;
constexpr std::uint64_t kMinPairBytes = 8 + 4 + 1, kMinTensorBytes = 8 + 4 + 4 + 8;  // empty name, the shortest value
constexpr std::uint64_t kArrayKept = 64;                                             // longest array that becomes metadata
constexpr std::uint32_t kMaxDims = 4, kDefaultAlignment = 32, kMaxAlignment = 1u << 20;

enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
constexpr std::array<std::uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: of no fixed size

Error bad(std::string what, std::string where = {}) { return Error{ErrorCode::model, std::move(what), std::move(where), ""}; }

// A value of a pair: what it looks like as text, and as a list of integers where it is one.
struct Value {
  ValueType type = ValueType::u8;
  bool kept = true;  // goes into the metadata
  std::string text;
  std::optional<std::vector<std::int64_t>> integers;  // of a short array of integers
};

struct Scalar {
  std::string text;
  std::optional<std::int64_t> integer;
};

class GgufParser {
 public:
  GgufParser(const ByteSource& source, std::uint64_t file_bytes, std::uint64_t header_limit)
      : cursor_(source, file_bytes, header_limit), file_bytes_(file_bytes) {
    header_.container = Container::gguf;
  }

  Result<FileHeader> parse() {
    TRITIUM_TRY(read_start());
    for (std::uint64_t i = 0; i < pairs_; ++i) TRITIUM_TRY(read_pair());
    for (std::uint64_t i = 0; i < tensors_; ++i) TRITIUM_TRY(read_tensor());
    TRITIUM_TRY(place_tensors());
    TRITIUM_TRY(restore_shapes());
    return std::move(header_);
  }

 private:
  Result<void> read_start() {
    std::array<std::uint8_t, 4> magic{};
    TRITIUM_TRY(cursor_.take(magic, "'GGUF' at its beginning"));
    if (std::memcmp(magic.data(), kMagic.data(), magic.size()) != 0) return bad("it does not begin with 'GGUF'");
    TRITIUM_TRY_ASSIGN(const auto version, cursor_.number<std::uint32_t>("the version"));
    if (version == 0x02000000u || version == 0x03000000u) return bad("it is big-endian, which is not supported");
    if (version != 2 && version != 3) return bad(fmt::format("its version is {}, supported are 2 and 3", version));
    TRITIUM_TRY_ASSIGN(tensors_, cursor_.number<std::uint64_t>("the number of tensors"));
    TRITIUM_TRY_ASSIGN(pairs_, cursor_.number<std::uint64_t>("the number of key/value pairs"));
    TRITIUM_TRY(check_count("tensors", tensors_, kMaxTensors, kMinTensorBytes));
    return check_count("key/value pairs", pairs_, kMaxPairs, kMinPairBytes);
  }

  [[nodiscard]] Result<void> check_count(std::string_view what, std::uint64_t count, std::uint64_t limit, std::uint64_t least_bytes) const {
    if (count > limit) return bad(fmt::format("its header announces {} {}, the limit is {}", count, what, limit));
    if (count > cursor_.left() / least_bytes)
      return bad(fmt::format("its header announces {} {}, but only {} bytes follow", count, what, cursor_.left()));
    return {};
  }

  Result<void> read_pair() {
    TRITIUM_TRY_ASSIGN(const std::string key, cursor_.string(kMaxKeyBytes, "a key"));
    if (key.find('\0') != std::string::npos) return bad("a key contains a zero byte");
    if (!keys_.insert(key).second) return bad("duplicate key", key);
    auto value = read_value();
    if (!value.ok()) return bad(value.error().message, key);
    if (key == kAlignmentKey) return set_alignment(*value);
    if (key.starts_with(kShapeKey)) {
      if (!value->integers) return bad("it must be a short array of integers", key);
      shapes_[key.substr(kShapeKey.size())] = *std::move(value->integers);
    }
    if (value->kept) header_.metadata.emplace(key, std::move(value->text));
    return {};
  }

  Result<void> set_alignment(const Value& value) {
    const std::string key(kAlignmentKey);
    if (value.type != ValueType::u32) return bad("it must be an unsigned 32-bit number", key);
    const std::uint64_t given = std::stoull(value.text);
    if (!std::has_single_bit(given) || given > kMaxAlignment)
      return bad(fmt::format("{} is not a power of two from 1 to {}", given, kMaxAlignment), key);
    alignment_ = given;
    header_.metadata.emplace(key, value.text);
    return {};
  }

  Result<ValueType> read_type() {
    TRITIUM_TRY_ASSIGN(const auto type, cursor_.number<std::uint32_t>("the type of a value"));
    if (type >= kValueBytes.size()) return bad(fmt::format("unknown value type {}", type));
    return static_cast<ValueType>(type);
  }

  Result<Value> read_value() {
    Value out;
    TRITIUM_TRY_ASSIGN(out.type, read_type());
    if (out.type == ValueType::array) {
      TRITIUM_TRY(read_array(out));
    } else if (out.type == ValueType::string) {
      TRITIUM_TRY_ASSIGN(out.text, cursor_.string(kMaxStringBytes, "a string"));
    } else {
      TRITIUM_TRY_ASSIGN(Scalar scalar, read_scalar(out.type));
      out.text = std::move(scalar.text);
    }
    return out;
  }

  Result<void> read_array(Value& out) {
    TRITIUM_TRY_ASSIGN(const ValueType type, read_type());
    TRITIUM_TRY_ASSIGN(const auto count, cursor_.number<std::uint64_t>("the length of an array"));
    if (type == ValueType::array) return bad("an array of arrays is not allowed");
    const std::uint64_t least = type == ValueType::string ? 8 : kValueBytes[static_cast<std::size_t>(type)];
    if (count > cursor_.left() / least) return bad(fmt::format("an array of {} elements, but only {} bytes follow", count, cursor_.left()));
    out.kept = type != ValueType::string && count <= kArrayKept;
    if (type == ValueType::string) {
      for (std::uint64_t i = 0; i < count; ++i) {
        TRITIUM_TRY_ASSIGN(const auto length, cursor_.number<std::uint64_t>("the length of a string"));
        TRITIUM_TRY(cursor_.skip(length, "a string"));
      }
      return {};
    }
    if (!out.kept) return cursor_.skip(count * least, "an array");
    std::vector<std::string> texts;
    out.integers.emplace();
    for (std::uint64_t i = 0; i < count; ++i) {
      TRITIUM_TRY_ASSIGN(Scalar scalar, read_scalar(type));
      texts.push_back(std::move(scalar.text));
      if (out.integers && scalar.integer) out.integers->push_back(*scalar.integer);
      if (!scalar.integer) out.integers.reset();
    }
    out.text = fmt::format("[{}]", fmt::join(texts, ", "));
    return {};
  }

  template <class T>
  Result<Scalar> read_integer() {
    TRITIUM_TRY_ASSIGN(const T value, cursor_.number<T>("a number"));
    const bool fits = std::is_signed_v<T> || static_cast<std::uint64_t>(value) <= static_cast<std::uint64_t>(INT64_MAX);
    return Scalar{fmt::format("{}", value), fits ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt};
  }

  template <class T>
  Result<Scalar> read_float() {
    TRITIUM_TRY_ASSIGN(const T value, cursor_.number<T>("a number"));
    return Scalar{fmt::format("{}", value), std::nullopt};
  }

  Result<Scalar> read_scalar(ValueType type) {
    switch (type) {
      case ValueType::u8:
        return read_integer<std::uint8_t>();
      case ValueType::i8:
        return read_integer<std::int8_t>();
      case ValueType::u16:
        return read_integer<std::uint16_t>();
      case ValueType::i16:
        return read_integer<std::int16_t>();
      case ValueType::u32:
        return read_integer<std::uint32_t>();
      case ValueType::i32:
        return read_integer<std::int32_t>();
      case ValueType::u64:
        return read_integer<std::uint64_t>();
      case ValueType::i64:
        return read_integer<std::int64_t>();
      case ValueType::f32:
        return read_float<float>();
      case ValueType::f64:
        return read_float<double>();
      default:
        break;
    }
    TRITIUM_TRY_ASSIGN(const auto value, cursor_.number<std::uint8_t>("a boolean"));
    if (value > 1) return bad(fmt::format("a boolean has the value {}", value));
    return Scalar{value == 1 ? "true" : "false", std::nullopt};
  }

  Result<void> read_tensor() {
    TRITIUM_TRY_ASSIGN(const std::string name, cursor_.string(kMaxNameBytes, "the name of a tensor"));
    if (name.find('\0') != std::string::npos) return bad("a tensor name contains a zero byte", std::string(name.c_str()));
    if (header_.tensors.contains(name)) return bad("duplicate tensor name", name);
    auto info = read_facts(name);
    if (!info.ok()) return bad(info.error().message, name);
    header_.tensors.emplace(name, std::move(info).value());
    return {};
  }

  // The offset stays relative to the data section here.
  Result<TensorInfo> read_facts(const std::string& name) {
    TensorInfo out{name, DType::f32, {}, 0, 0};
    TRITIUM_TRY_ASSIGN(const auto dims, cursor_.number<std::uint32_t>("the number of dimensions"));
    if (dims > kMaxDims) return bad(fmt::format("it has {} dimensions, at most {} are possible", dims, kMaxDims));
    for (std::uint32_t i = 0; i < dims; ++i) {
      TRITIUM_TRY_ASSIGN(const auto extent, cursor_.number<std::int64_t>("a dimension"));
      if (extent < 0) return bad(fmt::format("its dimension {} is {}", i, static_cast<std::uint64_t>(extent)));
      out.shape.insert(out.shape.begin(), extent);
    }
    TRITIUM_TRY_ASSIGN(const auto id, cursor_.number<std::uint32_t>("the type of a tensor"));
    TRITIUM_TRY_ASSIGN(out.offset, cursor_.number<std::uint64_t>("the offset of a tensor"));
    const auto type = dtype_from_ggml(id);
    if (!type) return bad(fmt::format("its type {} is unknown, or no longer in use", id));
    out.dtype = *type;
    const std::int64_t row = out.shape.empty() ? 1 : out.shape.back(), block = dtype_block(*type).values;
    if (row % block != 0) return bad(fmt::format("rows of {} values do not fill {}'s blocks of {}", row, dtype_name(*type), block));
    const auto bytes = stored_bytes(*type, out.shape);
    if (!bytes) return bad(fmt::format("its shape {} overflows", shape_text(out.shape)));
    out.bytes = *bytes;
    return out;
  }

  // Checks that the data of all tensors lies apart from each other and within the file; offsets become absolute.
  Result<void> place_tensors() {
    const std::uint64_t start = (cursor_.position() + alignment_ - 1) / alignment_ * alignment_;
    const std::uint64_t available = file_bytes_ > start ? file_bytes_ - start : 0;
    std::vector<TensorInfo*> order;
    for (auto& [name, tensor] : header_.tensors) {
      if (tensor.offset % alignment_ != 0)
        return bad(fmt::format("its offset {} is not a multiple of the alignment {}", tensor.offset, alignment_), name);
      if (tensor.bytes > 0) order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i]->offset - order[i - 1]->offset < order[i - 1]->bytes)
        return bad(fmt::format("its data overlaps that of '{}'", order[i - 1]->name), order[i]->name);
    for (auto& [name, tensor] : header_.tensors) {
      if (tensor.bytes > available || tensor.offset > available - tensor.bytes)
        return bad(fmt::format("the file is truncated or damaged: its {} bytes at offset {} reach beyond the file's {} bytes of data",
                               tensor.bytes, tensor.offset, available),
                   name);
      tensor.offset += start;
    }
    return {};
  }

  Result<void> restore_shapes() {
    for (auto& [name, shape] : shapes_) {
      const auto found = header_.tensors.find(name);
      if (found == header_.tensors.end()) continue;
      if (stored_bytes(found->second.dtype, shape) != found->second.bytes)
        return bad(fmt::format("'{}{}' says {}, which does not have the elements of the stored shape {}", kShapeKey, name,
                               shape_text(shape), shape_text(found->second.shape)),
                   name);
      found->second.shape = std::move(shape);
    }
    return {};
  }

  GgufCursor cursor_;
  std::uint64_t file_bytes_, tensors_ = 0, pairs_ = 0, alignment_ = kDefaultAlignment;
  FileHeader header_;
  std::set<std::string> keys_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace

Result<FileHeader> parse_gguf(const ByteSource& source, std::uint64_t file_bytes) {
  return GgufParser(source, file_bytes, kHeaderLimit).parse();
}

Result<FileHeader> parse_gguf(std::span<const std::uint8_t> prefix, std::uint64_t file_bytes) {
  const ByteSource source = [prefix](std::uint64_t offset, std::span<std::uint8_t> out) -> Result<void> {
    std::memcpy(out.data(), prefix.data() + offset, out.size());
    return {};
  };
  return GgufParser(source, file_bytes, std::min<std::uint64_t>(kHeaderLimit, prefix.size())).parse();
}

}  // namespace tritium
