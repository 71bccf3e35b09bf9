#include "weights/convert/rules.h"

#include "base/try.h"
#include "weights/convert/encoder.h"
#include "weights/ggml_types.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"dit", "text", "video-vae", "audio-vae"};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

bool block_matrix(std::string_view name) {
  return ends_with_any(name, {".attn.qkv_proj.weight", ".attn.out_proj.weight", ".mlp.fc1.weight", ".mlp.fc2.weight"});
}
bool modulation(std::string_view name) { return name.ends_with("adaln_proj.linear.weight"); }
bool in_blocks(std::string_view name) { return name.starts_with("blocks."); }
bool in_refiner(std::string_view name) { return name.starts_with("token_refiner.blocks."); }

bool text_matrix(std::string_view name) { return name.starts_with("model.language_model.layers.") && name.ends_with("_proj.weight"); }
bool decoder_matrix(std::string_view name) {
  return name.starts_with("decoder.transformer_blocks.") &&
         ends_with_any(name, {".attn.to_qkv.weight", ".attn.to_out.weight", ".ff.w1.weight", ".ff.w2.weight", ".ff.w3.weight"});
}

// Where float32 costs little and matters (spec/weights.md §5): kept as the source has it.
bool delicate(PartKind kind, std::string_view name) {
  if (kind != PartKind::dit) return false;
  return name.starts_with("video_patch_proj.") || name.starts_with("audio_patch_proj.") || name.starts_with("time_embedder.") ||
         name.starts_with("final_layer.video_out.") || name.starts_with("final_layer.audio_out.") || name.starts_with("adaln_") ||
         name.starts_with("rope.");
}

// What llama.cpp and its relatives take when rows do not fill blocks of 256: a type of nearly the same size with blocks of 32.
DType with_small_blocks(DType type) {
  switch (type) {
    case DType::q6_k:
      return DType::q8_0;
    case DType::q5_k:
      return DType::q5_1;
    case DType::q4_k:
      return DType::q5_0;
    default:
      return DType::q4_0;
  }
}

TargetFormat of_type(DType type) {
  const std::string name(dtype_name(type));
  return target_format(name).value_or(TargetFormat{name, Encoding::plain, type, false});
}

}  // namespace

std::string_view part_kind_name(PartKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

std::optional<PartKind> part_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i] == name) return static_cast<PartKind>(i);
  return std::nullopt;
}

bool glob_matches(std::string_view glob, std::string_view text) {
  std::size_t g = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && (glob[g] == '?' || (glob[g] == text[t] && glob[g] != '*'))) {
      ++g, ++t;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (star != std::string_view::npos) {  // let the last star swallow one more
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool ConvertRules::container_has(DType type) const { return container_has_dtype(container, type); }

// The type of the source, or the nearest that can be written.
FormatChoice ConvertRules::as_source(const TensorFacts& tensor) const {
  const auto plain = [](DType type) { return FormatChoice{of_type(type), 0, false, {}}; };
  if (tensor.source == nullptr || !tensor.source->found()) return plain(DType::f32);
  const LogicalTensor& source = *tensor.source->sources.front();
  if (!source.quant) {
    const DType type = source.stored->dtype;
    const bool blocks_fit =
        !is_block_dtype(type) || (can_quantize(type) && !tensor.shape.empty() && tensor.shape.back() % dtype_block(type).values == 0);
    if (container_has(type) && blocks_fit && (can_quantize(type) || type == DType::f64))
      return plain(type == DType::f64 ? DType::f32 : type);
    return plain(type == DType::f8_e4m3 || type == DType::f8_e5m2 || is_block_dtype(type) ? DType::bf16 : DType::f32);
  }
  FormatChoice out = plain(DType::bf16);
  if (container == Container::gguf) return out;
  const QuantDescription& quant = *source.quant;
  if (quant.format == QuantFormat::int8) out = fitted(tensor, *target_format(quant.rotation > 0 ? "int8-convrot" : "int8"));
  if (quant.format == QuantFormat::w4a8) out = fitted(tensor, *target_format("w4a8"));
  if (quant.format == QuantFormat::nf4) out = fitted(tensor, *target_format("nf4"));
  if (quant.format == QuantFormat::fp8_e4m3) out = fitted(tensor, *target_format("fp8"));
  return out;
}

// The wanted format with what it needs, or what comes nearest for rows it cannot hold.
FormatChoice ConvertRules::fitted(const TensorFacts& tensor, const TargetFormat& wanted) const {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  FormatChoice out{wanted, 0, kind == PartKind::text, {}};
  const auto instead = [&](std::string_view name, std::string reason) {
    return FormatChoice{*target_format(name), 0, false, std::move(reason)};
  };
  if (wanted.rotated) {
    out.rotation = rotation_group_for(columns, modulation(tensor.official));
    if (out.rotation == 0) return instead("bf16", fmt::format("no rotation group divides {} columns", columns));
  }
  if (wanted.block_type() && columns % dtype_block(wanted.dtype).values != 0) {
    const DType smaller = with_small_blocks(wanted.dtype);
    if (dtype_block(wanted.dtype).values > 32 && columns % 32 == 0)
      return {of_type(smaller), 0, false, fmt::format("{} columns do not fill blocks of 256", columns)};
    return instead("bf16", fmt::format("{} columns do not fill blocks of {}", columns, dtype_block(wanted.dtype).values));
  }
  return out;
}

// Whether the published files of the format have this tensor in it.
bool ConvertRules::is_meant(const TensorFacts& tensor) const {
  const std::string_view name = tensor.official;
  const std::size_t rank = tensor.shape.size();
  // The modulation of pruned models, and of the smallest ones, has too few columns to be worth it.
  const bool narrow = modulation(name) && (pruned || tensor.shape.back() < 32);
  if (delicate(kind, name) || narrow) return false;
  if (format.encoding == Encoding::plain && !format.block_type()) return rank >= 2 && ends_with_any(name, {".weight", ".weight_v"});
  if (rank != 2) return false;
  switch (kind) {
    case PartKind::dit:
      if (format.block_type())
        return name == "condition_proj.weight" || ((in_blocks(name) || in_refiner(name)) && (block_matrix(name) || modulation(name)));
      if (format.encoding == Encoding::nf4) return block_matrix(name) || modulation(name);
      return in_blocks(name) && (block_matrix(name) || modulation(name));
    case PartKind::text:
      return text_matrix(name) || (format.block_type() && name == "model.language_model.embed_tokens.weight");
    case PartKind::video_vae:
      return decoder_matrix(name);
    case PartKind::audio_vae:
      return false;
  }
  return false;
}

Result<FormatChoice> ConvertRules::forced(const TensorFacts& tensor, const TargetFormat& wanted) const {
  const auto refuse = [&](std::string what) {
    return Error{ErrorCode::usage, fmt::format("'{}' in {}: {}", tensor.target, wanted.name, what), "keep", "choose another format for it"};
  };
  if (wanted.encoding == Encoding::keep) return as_source(tensor);
  if (wanted.encoding == Encoding::plain && !container_has(wanted.dtype))
    return refuse(fmt::format("{} files cannot hold this format", container_name(container)));
  if (wanted.encoding != Encoding::plain && container == Container::gguf) return refuse("GGUF files cannot hold this format");
  if (wanted.encoding != Encoding::plain && (tensor.shape.size() != 2 || !tensor.target.ends_with(".weight")))
    return refuse(fmt::format("its shape is {}, the format is for matrices", shape_text(tensor.shape)));
  FormatChoice out = fitted(tensor, wanted);
  if (!out.reason.empty()) return refuse(out.reason);
  return out;
}

Result<FormatChoice> ConvertRules::choose(const TensorFacts& tensor) const {
  for (const KeepRule& rule : keep)
    if (glob_matches(rule.glob, tensor.official) || glob_matches(rule.glob, tensor.target)) return forced(tensor, rule.format);
  if (format.encoding == Encoding::plain && format.dtype == DType::f32) return FormatChoice{format, 0, false, {}};
  if (format.encoding == Encoding::keep || !is_meant(tensor)) return as_source(tensor);
  // Few bits are too few for the modulation of the full model and for pictures (measured: docs/convert.md).
  const bool sensitive = modulation(tensor.official) || kind == PartKind::video_vae;
  if (format.encoding == Encoding::w4a8 && sensitive) return fitted(tensor, *target_format("int8-convrot"));
  return fitted(tensor, format);
}

}  // namespace tritium
