// Strict reader of the GGUF container, versions 2 and 3 (spec/weights.md §2.3).
// "GGUF", version, counts of tensors and key/value pairs, the pairs, the tensors' names, shapes, types and offsets, padding, data.
#pragma once

#include "weights/tensor_info.h"

#include <functional>

namespace tritium {

// Copies the bytes [offset, offset + out.size()) of a file. Precondition: they lie within it.
using ByteSource = std::function<Result<void>(std::uint64_t offset, std::span<std::uint8_t> out)>;

// Reads front to back, a little at a time: the length of the header is not known in advance, and long arrays (vocabularies) are passed
// over. Nothing is allocated for a count or a length before it has been compared with what is left of the file.
//
// Shapes are outermost first, the reverse of the file's; "comfy.gguf.orig_shape.<name>" replaces them, with the same number of elements.
// Metadata: strings as they are, numbers as digits, booleans as true and false, arrays of up to 64 of these as "[1, 2]"; longer ones and
// arrays of strings are left out.
// Every violation of the format is an error (code model, field = tensor or key) that says what and where.
Result<FileHeader> parse_gguf(const ByteSource& source, std::uint64_t file_bytes);

// The same for a file of `file_bytes` bytes that begins with `prefix`: the header must lie within it.
Result<FileHeader> parse_gguf(std::span<const std::uint8_t> prefix, std::uint64_t file_bytes);

}  // namespace tritium
