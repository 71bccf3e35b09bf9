// Published files by the signature of their names and shapes (spec/weights.md §2.4, §8).
#include "base/hash.h"
#include "weights/identify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

struct Published {
  std::string_view signature;  // the whole or its beginning
  std::string_view name;
};
constexpr std::array<Published, 17> kPublished = {{
    {"b4e0df87da0c079979ae857edbcef49f", "Comfy-Org/MiniMax-H3 diffusion_models/minimax_h3_*_pruned_bf16"},
    {"7e410be9acd325ef8db3b8bed3d814cd", "Comfy-Org/MiniMax-H3 diffusion_models/minimax_h3_*_pruned_fp8_scaled"},
    {"ac9fdcd56900c9a1a5ef21eaacf6cb76", "Comfy-Org/MiniMax-H3 diffusion_models/minimax_h3_*_pruned_int8_convrot"},
    {"fb6c399412920c6b817d5c1f43ec62cd", "Comfy-Org/MiniMax-H3 diffusion_models/minimax_h3_*_int8_convrot"},
    {"d6473c909b72b73afc4fa00c273d1da2", "Comfy-Org/MiniMax-H3 text_encoders/qwen3vl_32b_minimax_h3_int8_convrot"},
    {"433df0f03d2e4fdbad5d7bd415c27c26", "Comfy-Org/MiniMax-H3 text_encoders/qwen3vl_32b_minimax_h3_nvfp4_awq"},
    {"db0197b6919425a5c7102c54e73affc1", "MiniMaxAI/MiniMax-H3 FL2VA or Ref2VA transformer"},
    {"8398104725e58fa8287c163c5c332686", "MiniMaxAI/MiniMax-H3 text_encoder"},
    {"24b80900992e2024fab17c991c57da23", "MiniMaxAI/MiniMax-H3 video_vae"},
    {"db383f1c8960837b94059f7722e6cb11", "MiniMaxAI/MiniMax-H3 audio_vae"},
    {"9b8f1cbc", "DiffSynth-Studio/MiniMax-H3-NF4 minimax-h3-fl2va-pruned-nf4"},
    {"072bd132", "DiffSynth-Studio/MiniMax-H3-NF4 minimax-h3-ref2va-pruned-nf4"},
    {"4b27efac", "DiffSynth-Studio/MiniMax-H3-NF4 minimax-h3-fl2va-nf4"},
    {"ae44c4b1", "DiffSynth-Studio/MiniMax-H3-NF4 minimax-h3-ref2va-nf4"},
    {"297933c3", "DiffSynth-Studio/MiniMax-H3-NF4 minimax-h3-text-encoder-nf4"},
    {"20481933", "DiffSynth-Studio/MiniMax-H3-NF4 video_vae_nf4"},
    {"925ae768", "DiffSynth-Studio/MiniMax-H3-NF4 audio_vae_nf4"},
}};

}  // namespace

std::string name_shape_signature(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  for (const std::string& name : checkpoint.names()) {
    lines.push_back(fmt::format("{}:{}", name, fmt::join(checkpoint.find(name)->shape, "_")));
    lines.push_back(name);
  }
  std::sort(lines.begin(), lines.end());
  return md5_hex(fmt::format("{}", fmt::join(lines, ",")));
}

std::string published_name(std::string_view signature) {
  for (const Published& file : kPublished)
    if (signature.starts_with(file.signature)) return std::string(file.name);
  return "";
}

}  // namespace tritium
