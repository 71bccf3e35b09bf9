// Any bytes as a GGUF file: refused with a reason, or tensors that lie in the file apart from each other and can be read.
#include "require.h"
#include "weights/gguf.h"
#include "weights/tensor_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace {

using namespace tritium;

void check_header(const FileHeader& header, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, tensor] : header.tensors) {
    FUZZ_REQUIRE(name == tensor.name && name.size() <= 512 && name.find('\0') == std::string::npos);
    FUZZ_REQUIRE(stored_bytes(tensor.dtype, tensor.shape) == tensor.bytes);
    if (tensor.bytes == 0) continue;
    FUZZ_REQUIRE(tensor.offset <= file_bytes && tensor.bytes <= file_bytes - tensor.offset);
    ranges.emplace_back(tensor.offset, tensor.offset + tensor.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) FUZZ_REQUIRE(ranges[i - 1].second <= ranges[i].first);
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
  FUZZ_REQUIRE(file->container() == Container::gguf);
  for (const auto& [name, tensor] : file->header().tensors) {
    std::vector<std::uint8_t> raw(tensor.bytes);
    FUZZ_REQUIRE(file->read(tensor, raw).ok());
    const DTypeBlock block = dtype_block(tensor.dtype);
    std::vector<float> wide(raw.size() / static_cast<std::size_t>(block.bytes) * static_cast<std::size_t>(block.values));
    convert_to_f32(tensor.dtype, raw, wide);
  }
}

}  // namespace

// The input follows "GGUF"; zeros follow the input, as many as its last byte says in units of 16, for the data of tensors.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes = {'G', 'G', 'U', 'F'};
  bytes.insert(bytes.end(), data, data + size);
  const std::size_t zeros = size == 0 ? 0 : 16u * data[size - 1];
  const std::size_t prefix = bytes.size();
  bytes.resize(prefix + zeros);
  const auto parsed = parse_gguf(bytes, bytes.size());
  if (parsed.ok())
    check_header(*parsed, bytes.size());
  else
    FUZZ_REQUIRE(parsed.error().code == ErrorCode::model && !parsed.error().message.empty());
  // Knowing less of the file never turns a refusal into a success.
  if (parse_gguf(std::span(bytes).first(prefix), bytes.size()).ok()) FUZZ_REQUIRE(parsed.ok());
  check_file(bytes, parsed.ok());
  return 0;
}
