#include "weights/safetensors.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace tritium {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr std::size_t kMaxNameBytes = 512;
constexpr std::size_t kMaxDims = 32;

Error bad(std::string what, std::string tensor = {}) { return Error{ErrorCode::model, std::move(what), std::move(tensor), ""}; }

// Streams the header's JSON into tensors and metadata. The grammar is a fixed two-level structure, so the handler is a small state
// machine: what may follow depends only on the path of keys that leads here.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  FileHeader header;
  std::string problem;  // first violation

  bool null() override { return value_refused("null"); }
  bool boolean(bool) override { return value_refused("a boolean"); }
  bool number_float(double, const std::string& text) override { return value_refused("the number " + text); }
  bool number_integer(std::int64_t value) override { return value_refused(fmt::format("the negative number {}", value)); }
  bool binary(nlohmann::json::binary_t&) override { return value_refused("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (array_ == nullptr) return value_refused(fmt::format("the number {}", value));
    if (array_->size() >= kMaxDims) return fail(fmt::format("'{}' has more than {} elements", field_, kMaxDims));
    array_->push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (where_ == Where::metadata) {
      if (!header.metadata.emplace(key_, value).second) return fail("duplicate metadata key '" + key_ + "'");
      return true;
    }
    if (where_ != Where::tensor || field_ != "dtype") return value_refused("a string");
    tensor_.dtype = dtype_from_name(value);
    if (!tensor_.dtype) return fail("unknown dtype '" + value + "'");
    return true;
  }

  bool start_object(std::size_t) override {
    switch (where_) {
      case Where::outside:
        where_ = Where::top;
        return true;
      case Where::top:
        where_ = key_ == "__metadata__" ? Where::metadata : Where::tensor;
        return true;
      default:
        return value_refused("an object");
    }
  }

  bool key(std::string& name) override {
    switch (where_) {
      case Where::top:
        if (name.size() > kMaxNameBytes || name.find('\0') != std::string::npos) return fail("a tensor name is too long or contains NUL");
        if (name == "__metadata__" ? metadata_seen_ : header.tensors.contains(name)) return fail("duplicate name '" + name + "'");
        metadata_seen_ |= name == "__metadata__";
        if (header.tensors.size() >= kMaxTensors) return fail("too many tensors");
        tensor_ = {};
        key_ = std::move(name);
        return true;
      case Where::metadata:
        key_ = std::move(name);
        return true;
      case Where::tensor:
        if (name != "dtype" && name != "shape" && name != "data_offsets") return fail("unknown field '" + name + "'");
        if (!fields_.insert(name).second) return fail("duplicate field '" + name + "'");
        field_ = std::move(name);
        return true;
      default:
        return fail("unexpected key");
    }
  }

  bool end_object() override {
    if (where_ == Where::metadata) {
      where_ = Where::top;
      return true;
    }
    if (where_ == Where::top) {
      where_ = Where::done;
      return true;
    }
    where_ = Where::top;
    return finish_tensor();
  }

  bool start_array(std::size_t) override {
    if (where_ != Where::tensor || array_ != nullptr) return value_refused("an array");
    if (field_ == "shape") array_ = &tensor_.shape;
    if (field_ == "data_offsets") array_ = &tensor_.offsets;
    return array_ != nullptr || value_refused("an array");
  }

  bool end_array() override {
    array_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& e) override {
    return fail(fmt::format("the header is not valid JSON near byte {} ({})", position, e.what()));
  }

 private:
  enum class Where { outside, top, metadata, tensor, done };
  struct Pending {
    std::optional<DType> dtype;
    std::vector<std::uint64_t> shape, offsets;
  };

  bool fail(std::string what) {
    if (problem.empty()) problem = where_ == Where::tensor || where_ == Where::metadata ? "'" + key_ + "': " + what : what;
    return false;
  }
  bool value_refused(const std::string& what) {
    if (where_ == Where::tensor) return fail("field '" + field_ + "' must not be " + what);
    return fail(where_ == Where::metadata ? "metadata values must be strings, found " + what : "unexpected " + what);
  }

  // Checks the fields of one entry against each other; offsets stay relative to the data section here.
  bool finish_tensor() {
    const std::set<std::string> fields = std::exchange(fields_, {});
    const auto refuse = [&](const std::string& what) { return fail("'" + key_ + "': " + what); };
    if (fields.size() != 3) return refuse("dtype, shape and data_offsets are required");
    if (tensor_.offsets.size() != 2) return refuse("data_offsets must have two elements");
    const auto [begin, end] = std::pair(tensor_.offsets[0], tensor_.offsets[1]);
    if (begin > end) return refuse("data_offsets are reversed");
    std::uint64_t bytes = dtype_size(*tensor_.dtype);
    for (const std::uint64_t dim : tensor_.shape)
      if (__builtin_mul_overflow(bytes, dim, &bytes)) return refuse("the shape overflows");
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return refuse("the shape overflows");
    if (bytes != end - begin) return refuse(fmt::format("the shape needs {} bytes, data_offsets give {}", bytes, end - begin));
    header.tensors.emplace(key_, TensorInfo{key_, *tensor_.dtype, {tensor_.shape.begin(), tensor_.shape.end()}, begin, bytes});
    return true;
  }

  Where where_ = Where::outside;
  std::string key_, field_;
  std::set<std::string> fields_;
  Pending tensor_;
  std::vector<std::uint64_t>* array_ = nullptr;
  bool metadata_seen_ = false;
};

// The parser itself recurses per nesting level, so the depth is bounded before it runs.
bool nesting_within_limit(std::string_view json) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return false;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return true;
}

// The tensors must tile [0, data_bytes) exactly; on success their offsets become absolute.
Result<void> place_tensors(FileHeader& header, std::uint64_t data_start, std::uint64_t data_bytes) {
  std::vector<TensorInfo*> order;
  for (auto& [name, tensor] : header.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes); });
  std::uint64_t end = 0;
  for (TensorInfo* tensor : order) {
    if (tensor->offset > end) return bad(fmt::format("there is a hole of {} bytes before it", tensor->offset - end), tensor->name);
    if (tensor->offset < end) return bad("its data overlaps another tensor's", tensor->name);
    end = tensor->offset + tensor->bytes;  // cannot wrap: offset <= end so far, and both are bounded by the check below
    if (end > data_bytes)
      return bad(fmt::format("the file is truncated: it has {} bytes of data, the header says at least {}", data_bytes, end), tensor->name);
    tensor->offset += data_start;
  }
  if (end != data_bytes) return bad(fmt::format("{} bytes after the last tensor belong to nothing", data_bytes - end));
  return {};
}

}  // namespace

Result<FileHeader> parse_safetensors(std::span<const std::uint8_t> prefix, std::uint64_t file_bytes) {
  if (file_bytes < 8 || prefix.size() < 8) return bad(fmt::format("it has {} bytes, fewer than the 8 of the header length", file_bytes));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = (length << 8) | prefix[static_cast<std::size_t>(i)];
  if (length > kSafetensorsHeaderLimit)
    return bad(fmt::format("its header length {} is above the limit of {}", length, kSafetensorsHeaderLimit));
  if (length > file_bytes - 8 || length > prefix.size() - 8)
    return bad(fmt::format("the file is truncated: header of {} bytes, but only {} bytes follow", length, file_bytes - 8));
  const std::string_view json(reinterpret_cast<const char*>(prefix.data()) + 8, static_cast<std::size_t>(length));
  if (json.empty() || json.front() != '{') return bad("its header does not start with '{'");
  const std::size_t last = json.find_last_not_of(' ');
  if (json[last] != '}') return bad("its header does not end with '}' and spaces");
  const std::string_view body = json.substr(0, last + 1);
  if (body.find('\0') != std::string_view::npos) return bad("its header contains a zero byte");  // the JSON parser would stop there
  if (!nesting_within_limit(body)) return bad(fmt::format("its header is nested deeper than {}", kMaxDepth));

  HeaderHandler handler;
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(body, &handler);
  } catch (const std::exception& e) { handler.problem = e.what(); }
  if (!parsed) return bad(handler.problem.empty() ? "its header is not valid JSON" : handler.problem);
  TRITIUM_TRY(place_tensors(handler.header, 8 + length, file_bytes - 8 - length));
  return std::move(handler.header);
}

}  // namespace tritium
