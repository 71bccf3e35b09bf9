// The released model in the formats it circulates in: byte arithmetic on its tensors (spec/weights.md §1, §2.3, §4, §5).
#include "pipeline/model_config.h"
#include "pipeline/model_shape.h"
#include "pipeline/released_model.h"

#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::array<ModelPreset, 13> kPresets = {{
    {"bf16", "bf16", "bf16", false, "bf16"},
    {"bf16-pruned", "bf16 pruned", "bf16", true, "bf16"},
    {"int8", "int8", "int8", false, "int8"},
    {"int8-pruned", "int8 pruned", "int8", true, "int8"},
    {"fp8-pruned", "fp8 pruned", "fp8", true, "int8"},
    {"w4a8-pruned", "W4A8 pruned", "w4a8", true, "nvfp4"},
    {"nf4", "NF4", "nf4", false, "nf4"},
    {"nf4-pruned", "NF4 pruned", "nf4", true, "nf4"},
    {"q8_0", "Q8_0", "q8_0", true, "q4_k"},
    {"q6_k", "Q6_K", "q6_k", true, "q4_k"},
    {"q4_k", "Q4_K", "q4_k", true, "q4_k"},
    {"q3_k", "Q3_K", "q3_k", true, "q2_k"},
    {"q2_k", "Q2_K", "q2_k", true, "q2_k"},
}};

using Wide = std::uint64_t;

struct Blocks {
  std::string_view name;
  Wide values, bytes;
};
constexpr std::array<Blocks, 5> kGgufBlocks = {
    {{"q8_0", 32, 34}, {"q6_k", 256, 210}, {"q4_k", 256, 144}, {"q3_k", 256, 110}, {"q2_k", 256, 84}}};

const Blocks* gguf_blocks(std::string_view format) {
  const auto* found = std::find_if(kGgufBlocks.begin(), kGgufBlocks.end(), [&](const Blocks& b) { return b.name == format; });
  return found == kGgufBlocks.end() ? nullptr : found;
}

// With scales and tables beside the codes; markers and other text are left out.
UnitBytes coded_matrix(std::string_view format, Wide n, Wide k, MatrixForm form) {
  const Wide values = n * k, row_scales = 4 * n;
  UnitBytes out{2 * values, 2 * values};
  if (const Blocks* blocks = gguf_blocks(format)) {
    out.file = out.resident = values / blocks->values * blocks->bytes;
    return out;
  }
  if (format == "bf16") return out;
  Wide resident_scales = row_scales;
  if (format == "int8") {
    out.file = values + row_scales;
  } else if (format == "fp8") {
    out.file = values + 4;
    if (form == MatrixForm::blocks) return {2 * values, out.file};
  } else if (format == "w4a8") {
    out.file = values / 2 + values / 16 + row_scales + 64;
  } else if (format == "nvfp4") {
    out.file = values / 2 + values / 16 + 4;
    if (form == MatrixForm::blocks) return {values / 64 * 36 + row_scales, out.file};
  } else if (format == "nf4") {
    out.file = values / 2 + values / 64 + 4 * ((values / 64 + 255) / 256) + 64 + 1024;
    resident_scales = 0;
  }
  // ggml has no blocks for these codes but those of 8 bits (device/params.cpp).
  out.resident = form == MatrixForm::packed ? out.file : values / 32 * 34 + resident_scales;
  return out;
}

// `rotated`: formats that are multiplied as integers where they can be.
ProductKind product_of(std::string_view format, MatrixForm form, bool rotated) {
  if (format == "bf16") return ProductKind::bf16;
  return rotated && form == MatrixForm::packed && (format == "int8" || format == "w4a8") ? ProductKind::int8 : ProductKind::decoded;
}

// Adds up tensors of one part or block.
class Sum {
 public:
  explicit Sum(MatrixForm form) : form_(form) {}

  // Kept in float32 whatever the file has.
  Sum& floats(Wide values, Wide file_bytes_each) {
    sum_ += {4 * values, file_bytes_each * values};
    return *this;
  }
  // `widened`: kept in bfloat16 whatever the file has.
  Sum& matrix(std::string_view format, Wide n, Wide k, bool widened = false) {
    UnitBytes bytes = coded_matrix(format, n, k, form_);
    if (widened) bytes.resident = 2 * n * k;
    return add(bytes);
  }
  Sum& add(UnitBytes bytes) {
    sum_ += bytes;
    return *this;
  }
  [[nodiscard]] UnitBytes bytes() const { return sum_; }

 private:
  MatrixForm form_;
  UnitBytes sum_;
};

DitConfig released_dit(bool pruned) {
  DitConfig c;
  c.hidden = 5376;
  c.heads = 56;
  c.head_dim = 128;
  c.ffn = 14336;
  c.text_dim = 5120;
  c.video_features = 96;
  c.audio_features = 32;
  c.time_input = pruned ? 0 : 256;
  c.time_hidden = pruned ? 0 : 5376;
  c.time_dim = pruned ? 8 : 2688;
  c.curve_points = pruned ? 1025 : 0;
  c.rope_frequencies = 16;
  c.layers = 50;
  c.refiner_layers = 2;
  return c;
}

Wide u(std::int64_t value) { return static_cast<Wide>(value); }

// The transformer (spec/weights.md §1.1).
class DitBytes {
 public:
  DitBytes(const DitConfig& config, std::string_view format, MatrixForm form) : c_(config), format_(format), form_(form) {}

  [[nodiscard]] PartShape shape() const {
    Sum block = attention_and_mlp(format_);
    add_modulation(block, 18 * u(c_.hidden), format_ == "fp8" ? "bf16" : format_);
    PartShape out{std::string(format_), std::vector<UnitBytes>(static_cast<std::size_t>(c_.layers), block.bytes()), other(), 0};
    out.unread = u(c_.rope_frequencies) * float_bytes();  // recomputed
    out.product = product_of(format_, form_, /*rotated=*/true);
    return out;
  }

 private:
  // NF4 files keep everything that is not coded in two bytes (spec/weights.md §4.6); elsewhere some tensors have four.
  [[nodiscard]] Wide float_bytes() const { return format_ == "nf4" ? 2 : 4; }

  [[nodiscard]] Sum attention_and_mlp(std::string_view matrices) const {
    const Wide h = u(c_.hidden), inner = u(c_.inner()), ffn = u(c_.ffn);
    // Codes of ggml's blocks are only made of rows that lie in order, and those of the full NF4 file do not.
    const bool reordered = matrices == "nf4" && !c_.pruned() && form_ == MatrixForm::blocks;
    Sum sum(form_);
    sum.floats(2 * h + 2 * u(c_.head_dim), 2);
    sum.matrix(matrices, 3 * inner, h, reordered).matrix(matrices, h, inner).matrix(matrices, 2 * ffn, h).matrix(matrices, h, ffn);
    return sum;
  }

  // The narrow matrices of a pruned model are kept in float32.
  void add_modulation(Sum& sum, Wide rows, std::string_view matrices) const {
    sum.floats(rows, 2);
    if (c_.pruned()) {
      sum.floats(rows * u(c_.time_dim), 2);
    } else {
      sum.matrix(matrices, rows, u(c_.time_dim));
    }
  }

  [[nodiscard]] UnitBytes other() const {
    const bool coded_refiner = gguf_blocks(format_) != nullptr || format_ == "nf4";
    const Wide h = u(c_.hidden), features = u(c_.video_features + c_.audio_features);
    Sum sum(form_);
    for (int i = 0; i < c_.refiner_layers; ++i) sum.add(attention_and_mlp(coded_refiner ? format_ : "bf16").bytes());
    if (format_ == "q8_0") {  // rows of 32 and 96 values fill its blocks
      sum.add({4 * h * features, h * features / 32 * 34});
    } else {
      sum.floats(h * features, float_bytes());
    }
    sum.floats(2 * h, float_bytes());  // their biases
    sum.matrix("bf16", h, u(c_.text_dim)).floats(h, 2);
    const Wide time = u(c_.time_hidden) * u(c_.time_input + 1) + u(c_.time_dim) * u(c_.time_hidden + 1);
    sum.floats(c_.pruned() ? u(c_.curve_points * c_.time_dim) : time, float_bytes());
    sum.floats(2 * h, 2);  // the refiner's norm and the last
    add_modulation(sum, 2 * h, format_ == "nf4" ? format_ : "bf16");
    sum.floats(features * (h + 1), float_bytes());
    return sum.bytes();
  }

  const DitConfig& c_;
  std::string_view format_;
  MatrixForm form_;
};

// The 50 layers of the text encoder that are used (spec/weights.md §1.4).
PartShape text_bytes(const TextConfig& c, std::string_view format, MatrixForm form) {
  constexpr Wide kVisionValues = 595'266'800;  // of the vision tower, read for pictures only
  const Wide h = u(c.hidden), q = u(c.heads * c.head_dim), kv = u(c.kv_heads * c.head_dim), ffn = u(c.ffn);
  const bool factors = format == "nvfp4";
  const ProductKind product = product_of(format, form, /*rotated=*/false);  // only the transformer quantizes its inputs
  // Embeddings are looked up in the file.
  const Wide unread = coded_matrix(factors ? "int8" : "bf16", u(c.vocabulary), h, form).file + 2 * kVisionValues;
  // These files mix types; only their sizes are known (spec/weights.md §8).
  const Wide published = format == "q4_k" ? 18'218'065'024 : format == "q2_k" ? 13'102'161'024 : 0;
  if (published > 0) {
    const Wide layer = (published - unread) / kTextLayersUsed;
    return {std::string(format), std::vector<UnitBytes>(kTextLayersUsed, UnitBytes{layer, layer}), {}, unread, product};
  }
  Sum layer(form);
  layer.floats(2 * h + 2 * u(c.head_dim), 2);
  layer.matrix(format, q, h).matrix(format, kv, h).matrix(format, kv, h).matrix(format, h, q).matrix(format, ffn, h).matrix(format, ffn, h);
  layer.matrix(format, h, ffn);
  if (factors) layer.add({4 * (q + ffn), 2 * (q + ffn)});  // before o_proj and down_proj
  return {std::string(format), std::vector<UnitBytes>(kTextLayersUsed, layer.bytes()), {}, unread, product};
}

}  // namespace

std::span<const ModelPreset> model_presets() { return kPresets; }

const ModelPreset* find_preset(std::string_view name) {
  const auto* found = std::find_if(kPresets.begin(), kPresets.end(), [&](const ModelPreset& p) { return p.name == name; });
  return found == kPresets.end() ? nullptr : found;
}

ModelShape released_model_shape(const ModelPreset& preset, MatrixForm form) {
  constexpr Wide kVideoDecoderValues = 2'423'532'544, kAudioDecoderValues = 64'918'008;  // spec/vae.md, with norms folded in
  ModelShape out;
  out.name = preset.title;
  // The documents are our own and parse.
  out.text_config = parse_text_config(released_text_config()).value();
  out.dit_config = released_dit(preset.pruned);
  out.video_vae_config = video_vae::VideoVaeConfig::parse(released_video_vae_config(), released_video_vae_source()).value();
  out.audio_vae_config = audio_vae::AudioVaeConfig::parse(released_audio_vae_config()).value();
  out.dit = DitBytes(out.dit_config, preset.dit, form).shape();
  out.text = text_bytes(out.text_config, preset.text, form);
  const ProductKind halves = form == MatrixForm::packed ? ProductKind::decoded : ProductKind::f32;
  out.video = {"f16", {}, {2 * kVideoDecoderValues, 2 * kVideoDecoderValues}, 0, halves};
  out.audio = {"f32", {}, {4 * kAudioDecoderValues, 4 * kAudioDecoderValues}, 0, ProductKind::sound};
  return out;
}

}  // namespace tritium
