// Any bytes as a safetensors file: refused with a reason, or tensors that tile the data section and can be read.
#include "require.h"
#include "weights/safetensors.h"
#include "weights/tensor_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdint>
#include <cstring>

namespace {

using namespace tritium;

void check_header(const FileHeader& header, std::uint64_t data_start, std::uint64_t file_bytes) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : header.tensors) {
    FUZZ_REQUIRE(name == tensor.name && name.size() <= 512 && name.find('\0') == std::string::npos);
    FUZZ_REQUIRE(tensor.offset >= data_start && tensor.offset <= file_bytes && tensor.bytes <= file_bytes - tensor.offset);
    if (tensor.bytes > 0) FUZZ_REQUIRE(static_cast<std::uint64_t>(tensor.elements()) * dtype_size(tensor.dtype) == tensor.bytes);
    sum += tensor.bytes;
  }
  FUZZ_REQUIRE(sum == file_bytes - data_start);
}

// The same bytes as a file in memory: opening agrees with parsing, and every tensor can be read and widened.
void check_file(std::span<const std::uint8_t> bytes, bool parsed) {
  static const int fd = ::memfd_create("fuzz", 0);
  FUZZ_REQUIRE(fd >= 0 && ::ftruncate(fd, 0) == 0);
  FUZZ_REQUIRE(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const auto file = TensorFile::open(path);
  FUZZ_REQUIRE(file.ok() == parsed);
  if (!file.ok()) return FUZZ_REQUIRE(file.error().text().find(path) != std::string::npos);
  for (const auto& [name, tensor] : file->header().tensors) {
    std::vector<std::uint8_t> raw(tensor.bytes);
    FUZZ_REQUIRE(file->read(tensor, raw).ok());
    std::vector<float> wide(raw.size() / dtype_size(tensor.dtype));
    convert_to_f32(tensor.dtype, raw, wide);
  }
}

}  // namespace

// Input that starts with '{' is a header whose length field is supplied here; its last byte says how many data bytes follow.
// Anything else is a whole file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes(data, data + size);
  if (size >= 2 && data[0] == '{') {
    const std::size_t data_bytes = bytes.back();
    const std::uint64_t length = size - 1;
    bytes.pop_back();
    bytes.insert(bytes.begin(), 8, 0);
    std::memcpy(bytes.data(), &length, 8);
    bytes.resize(bytes.size() + data_bytes, 0x5A);
  }
  const auto parsed = parse_safetensors(bytes, bytes.size());
  if (parsed.ok()) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    check_header(*parsed, 8 + length, bytes.size());
  } else {
    FUZZ_REQUIRE(parsed.error().code == ErrorCode::model && !parsed.error().message.empty());
  }
  check_file(bytes, parsed.ok());
  return 0;
}
