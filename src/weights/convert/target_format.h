// The formats that weights can be converted to, by the names the command line uses.
#pragma once

#include "weights/tensor_info.h"

#include <optional>
#include <string>
#include <vector>

namespace tritium {

// How the codes of one matrix are made (spec/weights.md §4).
enum class Encoding {
  keep,   // as the source has it
  plain,  // an ordinary element type or one of ggml's block types
  fp8,    // F8_E4M3, one scale per matrix                                   §4.5
  int8,   // a scale per row, optionally rotated                             §4.2
  w4a8,   // rotated, groups of 16, E4M3 scales, fitted codebook             §4.3
  nf4,    // bitsandbytes, blocks of 64, scales quantized again per 256      §4.6
};

struct TargetFormat {
  std::string name;  // "bf16", "int8-convrot", "q4_k", ...
  Encoding encoding = Encoding::keep;
  DType dtype = DType::bf16;  // of Encoding::plain
  bool rotated = false;       // of Encoding::int8; w4a8 always is

  [[nodiscard]] bool block_type() const { return encoding == Encoding::plain && is_block_dtype(dtype); }
  friend bool operator==(const TargetFormat&, const TargetFormat&) = default;
};

// None: no such format. Names are read without regard to case; '_' and '-' mean the same.
std::optional<TargetFormat> target_format(std::string_view name);
std::vector<std::string> target_format_names();

// Which container holds files of this format: GGUF for block types, else as the extension of the file says (".gguf" or not).
// Error code usage: a format that this kind of file cannot hold.
Result<Container> target_container(const TargetFormat& format, std::string_view file_name);

}  // namespace tritium
