// Any text as what a file says of its quantized layers: markers, header metadata, bitsandbytes' state. Understood or refused with a reason,
// and what is understood makes a file that opens or is refused: never a crash, never numbers that were not there.
#include "require.h"
#include "weights/quant/packed_rows.h"
#include "weights/tensor_layout.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

using namespace tritium;

// A small layer of every stored type with every side tensor a format may ask for; the fuzzed text says what it is.
struct LayerForm {
  DType type;
  std::vector<std::int64_t> shape;
};

void put(std::string& file, const FileLayout& layout, const std::string& name, std::string_view bytes) {
  for (const TensorInfo& tensor : layout.tensors)
    if (tensor.name == name) std::memcpy(file.data() + tensor.offset, bytes.data(), std::min<std::size_t>(bytes.size(), tensor.bytes));
}

void check_part(const std::string& path) {
  const auto part = WeightPart::open(path);
  if (!part.ok()) return FUZZ_REQUIRE(!part.error().message.empty());
  for (const auto& [name, tensor] : (*part)->tensors().all()) {
    const PlacedTensor placed = (*part)->find(name);
    FUZZ_REQUIRE(placed.found());
    const auto values = (*part)->read_f32(name);
    if (!values.ok()) continue;
    FUZZ_REQUIRE(static_cast<std::int64_t>(values->size()) == tensor.elements());
    if (!PackedRows::possible(placed)) continue;
    const auto packed = PackedRows::open(**part, placed);
    FUZZ_REQUIRE(packed.ok() && packed->rows() == tensor.shape[0]);
  }
}

void check_file(std::uint8_t form, const std::string& text) {
  static const int fd = ::memfd_create("fuzz", 0);
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const LayerForm forms[] = {{DType::i8, {16, 64}}, {DType::i8, {16, 32}},      {DType::u8, {16, 32}},
                             {DType::u8, {512, 1}}, {DType::f8_e4m3, {16, 64}}, {DType::i8, {16, 48}}};
  const LayerForm& layer = forms[form % std::size(forms)];
  const bool in_metadata = (form & 0x80) != 0, nf4 = (form & 0x40) != 0;
  const std::string marker = nf4 ? "a.weight.quant_state.bitsandbytes__nf4" : "a.comfy_quant";
  std::vector<TensorDeclaration> tensors{{"a.weight", layer.type, layer.shape}, {"a.weight_scale", DType::f32, {16, 1}}};
  if (nf4) {
    tensors.push_back({"a.weight.absmax", DType::f32, {16}});
    tensors.push_back({"a.weight.quant_map", DType::f32, {16}});
  }
  if ((form & 0x20) != 0) {
    tensors.push_back({"a.weight_s_rel", DType::f32, {16, 4}});
    tensors.push_back({"a.weight_s_channel", DType::f32, {16}});
  }
  FileMetadata metadata;
  if (in_metadata)
    metadata.emplace_back("_quantization_metadata", text);
  else
    tensors.push_back({marker, DType::u8, {static_cast<std::int64_t>(text.size())}});
  const auto layout = layout_safetensors(tensors, metadata);
  if (!layout.ok()) return;
  std::string file = layout->header;
  file.resize(layout->file_bytes, '\x11');
  if (!in_metadata) put(file, *layout, marker, text);
  FUZZ_REQUIRE(fd >= 0 && ::ftruncate(fd, 0) == 0);
  FUZZ_REQUIRE(::pwrite(fd, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()));
  check_part(path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 4096) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (const auto options = parse_quant_marker(text); options.ok()) FUZZ_REQUIRE(!options->format.empty());
  (void)parse_quant_metadata(text);
  check_file(data[0], text);
  return 0;
}
