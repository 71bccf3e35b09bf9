// How a file stores its matrices, and whether its name agrees.
#include "weights/identify_parts.h"

#include "base/try.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cctype>

namespace tritium {
namespace {

constexpr double kNotableShare = 0.15;  // of the bytes: a format that a file may be named after

bool has_word(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

std::string group_of(PartRole role, const std::string& name, bool matrix) {
  if (role == PartRole::dit) {
    if (has_word(name, {"token_refiner."})) return "refiner";
    if (!matrix) return "rest";
    if (has_word(name, {"adaln", "norm_out.linear"})) return "adaln";
  }
  if (role == PartRole::text_encoder && has_word(name, {"visual."})) return "vision";
  if ((role == PartRole::video_vae || role == PartRole::audio_vae) && !has_word(name, {"decoder.", "dec_in_proj"})) return "encoder";
  if (role == PartRole::audio_vae) return "decoder";
  if (!matrix) return "rest";
  if (has_word(name, {"embed_tokens", "token_embd"})) return "embeddings";
  if (has_word(name, {"attn.", ".attn_"})) return "attention";
  if (has_word(name, {".mlp.", ".ff.", ".ffn_"})) return "mlp";
  return "rest";
}

std::string format_of(const LogicalTensor& tensor) {
  if (!tensor.quant || tensor.quant->rotation == 0) return std::string(tensor.format_name());
  return fmt::format("{} convrot {}", tensor.format_name(), tensor.quant->rotation);
}

// Words in file names and the beginnings of the formats they stand for.
struct Word {
  std::string_view word;
  std::array<std::string_view, 2> formats;
};
constexpr std::array<Word, 33> kWords = {{
    {"w4a8", {"w4a8", "w4a8"}},       {"w6a8", {"w6a8", "w6a8"}},
    {"w4a4", {"w4a4", "w4a4"}},       {"int4", {"w4a4", "w4a8"}},
    {"nvfp4", {"nvfp4", "NVFP4"}},    {"mxfp8", {"mxfp8", "mxfp8"}},
    {"mxfp4", {"MXFP4", "MXFP4"}},    {"int8", {"int8", "int8"}},
    {"fp8", {"fp8", "fp8"}},          {"nf4", {"nf4", "nf4"}},
    {"bf16", {"BF16", "BF16"}},       {"fp16", {"F16", "F16"}},
    {"fp32", {"F32", "F32"}},         {"q8_0", {"Q8_0", "Q8_0"}},
    {"q6_k", {"Q6_K", "Q6_K"}},       {"q5_k", {"Q5_K", "Q5_K"}},
    {"q5_0", {"Q5_0", "Q5_0"}},       {"q5_1", {"Q5_1", "Q5_1"}},
    {"q4_k", {"Q4_K", "Q4_K"}},       {"q4_0", {"Q4_0", "Q4_0"}},
    {"q4_1", {"Q4_1", "Q4_1"}},       {"q3_k", {"Q3_K", "Q3_K"}},
    {"q2_k", {"Q2_K", "Q2_K"}},       {"iq4_nl", {"IQ4_NL", "IQ4_NL"}},
    {"iq4_xs", {"IQ4_XS", "IQ4_XS"}}, {"iq3_xxs", {"IQ3_XXS", "IQ3_XXS"}},
    {"iq3_s", {"IQ3_S", "IQ3_S"}},    {"iq2_xxs", {"IQ2_XXS", "IQ2_XXS"}},
    {"iq2_xs", {"IQ2_XS", "IQ2_XS"}}, {"iq1_s", {"IQ1_S", "IQ1_S"}},
    {"iq1_m", {"IQ1_M", "IQ1_M"}},    {"w4a16", {"awq_w4a16", "awq_w4a16"}},
    {"iq2_s", {"IQ2_S", "IQ2_S"}},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

void sum_formats(const LogicalTensors& tensors, Identity& identity) {
  std::map<std::pair<std::string, std::string>, FormatShare> shares;
  std::map<std::string, std::uint64_t> by_format;
  for (const auto& [name, tensor] : tensors.all()) {
    const std::string group = group_of(identity.role, name, tensor.shape.size() >= 2), format = format_of(tensor);
    FormatShare& share = shares[{group, format}];
    share.group = group;
    share.format = format;
    ++share.tensors;
    share.bytes += tensor.bytes;
    by_format[format] += tensor.bytes;
  }
  for (const auto& [key, share] : shares) identity.formats.push_back(share);
  const auto most = std::max_element(by_format.begin(), by_format.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != by_format.end()) identity.main_format = most->first;
}

void compare_with_file_name(const std::string& file_name, Identity& identity) {
  const std::string name = lower(file_name);
  std::vector<std::string_view> said;
  bool agrees = false;
  for (const Word& word : kWords) {
    if (name.find(word.word) == std::string::npos) continue;
    said.push_back(word.word);
    for (const std::string_view format : word.formats) {
      std::uint64_t bytes = 0;
      for (const FormatShare& share : identity.formats) bytes += share.format.starts_with(format) ? share.bytes : 0;
      agrees |= static_cast<double>(bytes) > kNotableShare * static_cast<double>(identity.bytes);
    }
  }
  if (!said.empty() && !agrees && !identity.formats.empty())
    identity.warnings.push_back(fmt::format("its name says {}, its content is mostly {}", fmt::join(said, ", "), identity.main_format));
  if (identity.role != PartRole::dit) return;
  if (name.find("pruned") != std::string::npos && !identity.pruned)
    identity.warnings.push_back("its name says pruned, its content is the full model");
}

Result<void> refuse_unsupported(const Checkpoint& checkpoint, const std::string& file_name) {
  const auto refuse = [&](const std::string& what, std::string_view tensor) -> Result<void> {
    return Error{ErrorCode::model, fmt::format("'{}' is {}, which is not supported", file_name, what), std::string(tensor),
                 "use a file of another format; docs/models.md lists those understood"};
  };
  // By tensor: side tensors that no supported format has.
  struct Mark {
    std::string_view end, what;
  };
  constexpr std::array<Mark, 8> kMarks = {{{".smooth_factor", "packed by Nunchaku (SVDQuant)"},
                                           {".wscales", "packed by Nunchaku (SVDQuant)"},
                                           {".proj_down.qweight", "packed by Nunchaku (SVDQuant)"},
                                           {".qzeros", "packed by GPTQ or AutoAWQ"},
                                           {".g_idx", "packed by GPTQ"},
                                           {"tensor_impl.int_data", "quantized by torchao"},
                                           {"tensor_impl.scale", "quantized by torchao"},
                                           {"_weight_qdata", "quantized by torchao"}}};
  for (const std::string& name : checkpoint.names())
    for (const Mark& mark : kMarks)
      if (name.ends_with(mark.end)) return refuse(std::string(mark.what), name);
  // By name: nothing in these files tells them from others that can be read.
  constexpr std::array<Mark, 4> kNames = {{{"orbitquant", "an OrbitQuant file"},
                                           {"sqkv", "a DT-sQKV file"},
                                           {"q8_cr", "a rotated Q8 file (Q8_CR) without a marker that says how"},
                                           {"svdq", "an SVDQuant file"}}};
  for (const Mark& mark : kNames)
    if (lower(file_name).find(mark.end) != std::string::npos) return refuse(std::string(mark.what), "");
  return {};
}

}  // namespace tritium
