// What a file says about a quantized matrix (spec/weights.md §3, §4), checked against the tensors it is made of.
//
// Names: a layer L owns the matrix "L.weight" [N, K] and side tensors such as "L.weight_scale". N are outputs, K inputs, y = x·Wᵀ.
#pragma once

#include "weights/tensor_info.h"

#include <array>
#include <optional>

namespace tritium {

enum class QuantFormat {
  int8,      // I8 [N, K], a scale per row or one for all; optionally rotated (ConvRot)                                §4.2
  w4a8,      // nibbles of a codebook times a scale per group, rounded to an int8 grid, a scale per row; rotated       §4.3
  w6a8,      // the same with 6-bit codes in two planes                                                                §4.3
  w4a4,      // signed nibbles, a scale per row; rotated                                                               §4.4
  fp8_e4m3,  // 8-bit floats, optionally a scale per row or one for all                                                §4.5
  fp8_e5m2,
  nf4,        // bitsandbytes: nibbles of a table times a scale per 64 weights, the scales possibly quantized again    §4.6
  nvfp4,      // 4-bit floats, an E4M3 scale per 16, one F32 scale, optionally a factor per input                      §4.7
  mxfp8,      // E4M3 with a power of two per 32                                                                       §4.8
  awq_w4a16,  // unsigned nibbles, a scale and an offset per 64                                                        §4.9
};
std::string_view quant_format_name(QuantFormat format);  // "int8", "w4a8", ...

// Where the description was found, in the order of lookup.
enum class DescribedBy {
  marker,        // tensor "L.comfy_quant" holding JSON
  metadata,      // header metadata "_quantization_metadata"
  legacy_fp8,    // a tensor "scaled_fp8" beside the layers and "L.scale_weight"
  bitsandbytes,  // tensor "L.weight.quant_state.bitsandbytes__nf4" holding JSON
  dtype,         // nothing but an 8-bit float type: plain cast, scale 1
};

// The tensors a quantized matrix has beside its codes; nullptr: not there.
struct SideTensors {
  const TensorInfo* scale = nullptr;             // "weight_scale"; of the old fp8 files "scale_weight"
  const TensorInfo* scale_2 = nullptr;           // "weight_scale_2"
  const TensorInfo* zeros = nullptr;             // "weight_zeros"
  const TensorInfo* group_scale = nullptr;       // "weight_s_rel"
  const TensorInfo* channel_scale = nullptr;     // "weight_s_channel"
  const TensorInfo* codebook = nullptr;          // "weight_codebook"
  const TensorInfo* correction = nullptr;        // "weight_correction"
  const TensorInfo* pre_quant_scale = nullptr;   // "pre_quant_scale"
  const TensorInfo* input_scale = nullptr;       // "input_scale", "scale_input": of activations, not used here
  const TensorInfo* absmax = nullptr;            // "weight.absmax"
  const TensorInfo* quant_map = nullptr;         // "weight.quant_map"
  const TensorInfo* nested_absmax = nullptr;     // "weight.nested_absmax"
  const TensorInfo* nested_quant_map = nullptr;  // "weight.nested_quant_map"
};

// Every side tensor by the end of its name, after the layer's name. The first name of a member is the one errors use.
struct SideName {
  std::string_view suffix;
  const TensorInfo* SideTensors::*member;
};
inline constexpr std::array<SideName, 15> kSideNames = {{
    {".weight_scale", &SideTensors::scale},
    {".scale_weight", &SideTensors::scale},
    {".weight_scale_2", &SideTensors::scale_2},
    {".weight_zeros", &SideTensors::zeros},
    {".weight_s_rel", &SideTensors::group_scale},
    {".weight_s_channel", &SideTensors::channel_scale},
    {".weight_codebook", &SideTensors::codebook},
    {".weight_correction", &SideTensors::correction},
    {".pre_quant_scale", &SideTensors::pre_quant_scale},
    {".input_scale", &SideTensors::input_scale},
    {".scale_input", &SideTensors::input_scale},
    {".weight.absmax", &SideTensors::absmax},
    {".weight.quant_map", &SideTensors::quant_map},
    {".weight.nested_absmax", &SideTensors::nested_absmax},
    {".weight.nested_quant_map", &SideTensors::nested_quant_map},
}};

struct QuantDescription {
  QuantFormat format = QuantFormat::int8;
  DescribedBy described_by = DescribedBy::marker;
  bool full_precision = false;    // the reference multiplies in floating point here: activations must not be quantized
  std::int64_t rotation = 0;      // ConvRot group along K, a power of 4; 0: not rotated
  std::int64_t group = 0;         // weights along K with one scale; 0: the whole row. NF4: along the flattened matrix
  std::int64_t nested_group = 0;  // NF4: groups with one second-level scale; 0: scales are stored as they are
  float nested_offset = 0;        // NF4, nested only
  DType rounding = DType::f32;    // NF4: the type every weight is rounded to
  SideTensors sides;
};

// A matrix as the file describes it.
struct DescribedWeight {
  std::vector<std::int64_t> shape;        // logical: [N, K], unpacked
  std::optional<QuantDescription> quant;  // none: plain, of its own dtype
};

// What belongs to one layer.
struct LayerFacts {
  std::string layer;  // as stored: errors name tensors with it
  const TensorInfo* weight = nullptr;
  SideTensors sides;
};

// The options of a marker or metadata entry; absent ones have their defaults filled in by format (§3).
struct QuantOptions {
  std::string format;
  std::optional<bool> full_precision, convrot;
  std::optional<std::int64_t> rotation_group, group;
};

// Marker: UTF-8 JSON of at most 64 KiB. Errors (code model) name the key, its value and what is allowed; the caller names the layer.
Result<QuantOptions> parse_quant_marker(std::string_view text);

// "_quantization_metadata": {"layers": {name: entry}}, an entry being an object as in a marker or a bare format name. By layer name as
// written there. An entry that cannot be understood keeps its error: it matters only if the layer has no marker of its own.
using MetadataEntries = std::vector<std::pair<std::string, Result<QuantOptions>>>;
Result<MetadataEntries> parse_quant_metadata(std::string_view text);

// Each checks types, shapes and group sizes of everything the layer owns, from headers alone. Errors (code model, field = tensor) name
// the value and what is expected; missing side tensors and those that do not belong to the format are errors.
Result<DescribedWeight> describe_marked(const LayerFacts& facts, const QuantOptions& options, DescribedBy by);
Result<DescribedWeight> describe_legacy_fp8(const LayerFacts& facts, bool full_precision);
Result<DescribedWeight> describe_nf4(const LayerFacts& facts, std::string_view state);  // the JSON of its quant_state
Result<DescribedWeight> describe_unmarked(const LayerFacts& facts);

}  // namespace tritium
