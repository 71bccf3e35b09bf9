// ggml's element types: their numbers in GGUF files, decoding and encoding. The only file of this folder that uses ggml.
#pragma once

#include "weights/dtype.h"

#include <tritium/result.h>

namespace tritium {

// None: unknown, removed (Q4_2, Q4_0_4_4, ...) or used only within computations (Q8_1, Q8_K).
std::optional<DType> dtype_from_ggml(std::uint32_t id);
// None: ggml has no such type.
std::optional<std::uint32_t> ggml_id(DType type);

// Blocks to float32. Any alignment. Preconditions: a block type; out holds the values of whole blocks, bytes exactly those blocks.
void dequantize_blocks(DType type, std::span<const std::uint8_t> bytes, std::span<float> out);

// Whether the scales of these blocks are finite. Any alignment. Preconditions: a block type; whole blocks.
[[nodiscard]] bool blocks_are_finite(DType type, std::span<const std::uint8_t> bytes);

// Whether quantize() can make this type: F32, F16, BF16 and the block types that are good without an importance matrix.
[[nodiscard]] bool can_quantize(DType type);

// Rows of `columns` values, nearest in the type's own sense; deterministic, and the same whether rows are given together or apart.
// Preconditions: values.size() is a multiple of columns, columns of the type's block; out has exactly the bytes of the rows.
// Errors (code failure): a type for which can_quantize is false; a value that is not finite.
Result<void> quantize(DType type, std::span<const float> values, std::int64_t columns, std::span<std::uint8_t> out);

}  // namespace tritium
