#include "base/try.h"
#include "weights/ggml_types.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <bit>
#include <limits>

namespace tritium {
namespace {

constexpr std::uint64_t kAlignment = 32;
constexpr std::size_t kMaxDims = 4;
constexpr std::string_view kAlignmentKey = "general.alignment", kShapeKey = "comfy.gguf.orig_shape.";

std::uint64_t aligned(std::uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// Appends little-endian values. The numbers of value types are those of the format.
class GgufText {
 public:
  template <class T>
  void number(T value) {
    const auto bits = std::bit_cast<std::array<char, sizeof(T)>>(value);
    text.append(bits.data(), bits.size());
  }
  void string(std::string_view value) {
    number<std::uint64_t>(value.size());
    text += value;
  }
  void pair(const std::string& key, const MetadataValue& value) {
    string(key);
    std::visit(*this, value);
  }

  void operator()(const std::string& value) {
    number<std::uint32_t>(8);
    string(value);
  }
  void operator()(std::uint32_t value) {
    number<std::uint32_t>(4);
    number(value);
  }
  void operator()(float value) {
    number<std::uint32_t>(6);
    number(value);
  }
  void operator()(const std::vector<std::int32_t>& values) {
    number<std::uint32_t>(9);
    number<std::uint32_t>(5);
    number<std::uint64_t>(values.size());
    for (const std::int32_t value : values) number(value);
  }

  std::string text;
};

// At most four dimensions: the outermost ones become one.
std::vector<std::int64_t> merged(std::vector<std::int64_t> shape) {
  while (shape.size() > kMaxDims) {
    shape[1] *= shape[0];  // cannot overflow: the product of all is known to fit
    shape.erase(shape.begin());
  }
  return shape;
}

Result<void> check_tensor(const TensorDeclaration& tensor) {
  const auto refuse = [&](std::string what) { return Error{ErrorCode::failure, std::move(what), tensor.name, ""}; };
  if (!ggml_id(tensor.dtype)) return refuse(fmt::format("a GGUF file cannot hold {}", dtype_name(tensor.dtype)));
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back(), block = dtype_block(tensor.dtype).values;
  if (row % block != 0) return refuse(fmt::format("rows of {} values do not fill {}'s blocks of {}", row, dtype_name(tensor.dtype), block));
  if (*stored_bytes(tensor.dtype, tensor.shape) == 0) return refuse("a GGUF file cannot hold a tensor without elements");
  for (const std::int64_t dim : tensor.shape)
    if (tensor.shape.size() > kMaxDims && dim > std::numeric_limits<std::int32_t>::max())
      return refuse(fmt::format("the shape {} does not fit the 32 bits that keep it", shape_text(tensor.shape)));
  return {};
}

Result<FileMetadata> with_shapes(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata) {
  FileMetadata out = metadata;
  for (const auto& [key, value] : metadata) {
    const auto* given = std::get_if<std::uint32_t>(&value);
    if (key == kAlignmentKey && (given == nullptr || *given != kAlignment))
      return Error{ErrorCode::failure, fmt::format("it must be {}, as a 32-bit number", kAlignment), key, ""};
    if (key.starts_with(kShapeKey)) return Error{ErrorCode::failure, "it is made from the tensors' shapes", key, ""};
  }
  for (const TensorDeclaration& tensor : tensors)
    if (tensor.shape.size() > kMaxDims)
      out.emplace_back(std::string(kShapeKey) + tensor.name, std::vector<std::int32_t>(tensor.shape.begin(), tensor.shape.end()));
  return out;
}

}  // namespace

Result<FileLayout> layout_gguf(std::span<const TensorDeclaration> tensors, const FileMetadata& metadata) {
  TRITIUM_TRY(check_declarations(tensors, metadata));
  for (const TensorDeclaration& tensor : tensors) TRITIUM_TRY(check_tensor(tensor));
  TRITIUM_TRY_ASSIGN(const FileMetadata pairs, with_shapes(tensors, metadata));

  GgufText out;
  out.text = "GGUF";
  out.number<std::uint32_t>(3);
  out.number<std::uint64_t>(tensors.size());
  out.number<std::uint64_t>(pairs.size());
  for (const auto& [key, value] : pairs) out.pair(key, value);
  FileLayout layout{Container::gguf, {}, {}, 0};
  std::uint64_t end = 0;
  for (const TensorDeclaration& tensor : tensors) {
    const std::uint64_t bytes = *stored_bytes(tensor.dtype, tensor.shape);
    const std::vector<std::int64_t> stored = merged(tensor.shape);
    out.string(tensor.name);
    out.number(static_cast<std::uint32_t>(stored.size()));
    for (std::size_t i = stored.size(); i-- > 0;) out.number(stored[i]);
    out.number(*ggml_id(tensor.dtype));
    out.number(end);
    layout.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, end, bytes});
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - end)
      return Error{ErrorCode::failure, "the file would be too large", tensor.name, ""};
    end = aligned(end + bytes);
  }
  layout.header = std::move(out.text);
  layout.header.resize(aligned(layout.header.size()), '\0');
  for (TensorInfo& tensor : layout.tensors) tensor.offset += layout.header.size();
  layout.file_bytes = layout.header.size() + end;  // ggml pads the last tensor too
  return layout;
}

}  // namespace tritium
