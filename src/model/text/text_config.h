// Dimensions of the Qwen3-VL text stack as H3 uses it (spec/text.md §3).
#pragma once

#include <tritium/result.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tritium {

struct TextConfig {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0;
  int layers = 0;  // used layers; a checkpoint may hold more
  float rms_eps = 1e-6f;
  double rope_theta = 5e6;
  std::array<int, 3> mrope_section{};  // frequencies per position axis t, h, w (spec/text.md §3.3)
  std::int64_t max_positions = 262144;
};

// The conditioning is the residual stream after this many layers; the released 64-layer encoder is cut here.
inline constexpr int kTextLayersUsed = 50;

// From the text encoder's config.json. Errors (code model) name the key and its value.
Result<TextConfig> parse_text_config(std::string_view json);

}  // namespace tritium
