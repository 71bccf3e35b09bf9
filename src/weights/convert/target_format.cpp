#include "weights/convert/target_format.h"

#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::array kBlockTypes = {DType::q8_0, DType::q6_k, DType::q5_k, DType::q5_1,  DType::q5_0,   DType::q4_k,  DType::q4_1,
                                    DType::q4_0, DType::q3_k, DType::q2_k, DType::mxfp4, DType::iq4_nl, DType::iq4_xs};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(c)); });
  return out;
}

std::vector<TargetFormat> make_formats() {
  std::vector<TargetFormat> out = {{"keep", Encoding::keep, DType::bf16, false},  {"f32", Encoding::plain, DType::f32, false},
                                   {"bf16", Encoding::plain, DType::bf16, false}, {"f16", Encoding::plain, DType::f16, false},
                                   {"fp8", Encoding::fp8, DType::f8_e4m3, false}, {"int8-convrot", Encoding::int8, DType::i8, true},
                                   {"int8", Encoding::int8, DType::i8, false},    {"w4a8", Encoding::w4a8, DType::i8, true},
                                   {"nf4", Encoding::nf4, DType::u8, false}};
  for (const DType type : kBlockTypes)
    if (can_quantize(type)) out.push_back({lower(dtype_name(type)), Encoding::plain, type, false});
  return out;
}

const std::vector<TargetFormat>& formats() {
  static const std::vector<TargetFormat> all = make_formats();
  return all;
}

}  // namespace

std::optional<TargetFormat> target_format(std::string_view name) {
  for (const TargetFormat& format : formats())
    if (lower(format.name) == lower(name)) return format;
  return std::nullopt;
}

std::vector<std::string> target_format_names() {
  std::vector<std::string> out;
  for (const TargetFormat& format : formats()) out.push_back(format.name);
  return out;
}

Result<Container> target_container(const TargetFormat& format, std::string_view file_name) {
  const bool gguf = lower(file_name).ends_with(".gguf"), safetensors = lower(file_name).ends_with(".safetensors");
  if (!gguf && !safetensors)
    return Error{ErrorCode::usage, fmt::format("'{}' ends with neither .safetensors nor .gguf", file_name), "target",
                 format.block_type() ? "give a name that ends with .gguf" : "give a name that ends with .safetensors"};
  if (format.block_type() && !gguf)
    return Error{ErrorCode::usage, fmt::format("{} is a format of GGUF files, '{}' is none", format.name, file_name), "target",
                 "give a name that ends with .gguf"};
  const bool for_safetensors = format.encoding != Encoding::plain && format.encoding != Encoding::keep;
  if (for_safetensors && gguf)
    return Error{ErrorCode::usage, fmt::format("{} is a format of safetensors files, '{}' is none", format.name, file_name), "target",
                 "give a name that ends with .safetensors"};
  return gguf ? Container::gguf : Container::safetensors;
}

}  // namespace tritium
