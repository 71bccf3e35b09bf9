// Strict reader of the safetensors container (spec/weights.md §2.1).
// Bytes 0..7: header length, little endian; then a JSON header; then the data section, tiled by the tensors without holes.
#pragma once

#include "weights/tensor_info.h"

namespace tritium {

inline constexpr std::uint64_t kSafetensorsHeaderLimit = 100'000'000;  // bytes; the limit of the reference implementation

// Pure part of the reader, for tests and fuzzing: `prefix` holds at least the first 8 bytes and the header of a file of
// `file_bytes` bytes. Every violation of the format is an error (code model, field = tensor) that says what and where.
Result<FileHeader> parse_safetensors(std::span<const std::uint8_t> prefix, std::uint64_t file_bytes);

}  // namespace tritium
