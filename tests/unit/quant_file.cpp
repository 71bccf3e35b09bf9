#include "unit/quant_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tritium::test {
namespace {

using Random = std::mt19937;

std::string random_bytes(Random& random, std::int64_t count) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<char>(random() & 0xFFu));
  return out;
}

std::vector<float> random_floats(Random& random, std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(std::uniform_real_distribution<float>(-2, 2)(random));
  return out;
}

// Codes of finite, not negative E4M3 scales.
std::string random_e4m3(Random& random, std::int64_t count) {
  std::string out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<char>(random() % 0x7Fu));
  return out;
}

std::uint8_t byte_at(const std::string& bytes, std::int64_t i) { return static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]); }
float float_at(const std::vector<float>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
int low_first(const std::string& bytes, std::int64_t i) { return i % 2 == 0 ? byte_at(bytes, i / 2) & 15 : byte_at(bytes, i / 2) >> 4; }
int high_first(const std::string& bytes, std::int64_t i) { return i % 2 == 0 ? byte_at(bytes, i / 2) >> 4 : byte_at(bytes, i / 2) & 15; }
float e4m3(const std::string& bytes, std::int64_t i) { return f8_e4m3_to_f32(byte_at(bytes, i)); }

// Position of scale (r, c) among `columns` padded to tiles (§4.7).
std::int64_t tiled(std::int64_t r, std::int64_t c, std::int64_t columns) {
  const std::int64_t padded = (columns + 3) / 4 * 4;
  return ((r / 128) * (padded / 4) + c / 4) * 512 + (r % 32) * 16 + ((r % 128) / 32) * 4 + c % 4;
}
std::vector<std::int64_t> tiled_shape(std::int64_t rows, std::int64_t columns) { return {(rows + 127) / 128 * 128, (columns + 3) / 4 * 4}; }
std::int64_t area(const std::vector<std::int64_t>& shape) { return shape[0] * shape[1]; }

std::int64_t to_grid(float v) { return static_cast<std::int64_t>(std::clamp(std::nearbyint(v), -127.0f, 127.0f)); }

Sample start(std::string name, std::int64_t rows, std::int64_t columns) {
  Sample out;
  out.name = std::move(name);
  out.rows = rows;
  out.columns = columns;
  return out;
}

Sample int8_sample(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t rotation,
                   const std::vector<std::int64_t>& scale_shape) {
  Sample out = start(fmt::format("int8, rotation {}, scale {}", rotation, shape_text(scale_shape)), rows, columns);
  const std::int64_t scales = scale_shape.empty() ? 1 : scale_shape[0];
  const auto codes = random_bytes(random, rows * columns);
  const auto scale = random_floats(random, scales);
  out.file.add("l.weight", "I8", {rows, columns}, codes);
  out.file.add_floats("l.weight_scale", scale_shape, scale);
  out.file.add_text("l.comfy_quant",
                    rotation == 0 ? R"({"format":"int8_tensorwise"})"
                                  : fmt::format(R"({{"format":"int8_tensorwise","convrot":true,"convrot_groupsize":{}}})", rotation));
  out.rotation = rotation;
  out.integer = [=](std::int64_t n, std::int64_t k) { return static_cast<std::int8_t>(byte_at(codes, n * columns + k)); };
  out.value = [=, q = out.integer](std::int64_t n, std::int64_t k) {
    return static_cast<float>(q(n, k)) * float_at(scale, scales == 1 ? 0 : n);
  };
  return out;
}

struct Grouped {
  int bits = 4;
  std::int64_t group = 16, rotation = 16;
  bool codebook = true, correction = false;
  std::string scale_type = "F8_E4M3";
};

Sample grouped_sample(Random& random, std::int64_t rows, std::int64_t columns, const Grouped& g) {
  Sample out =
      start(fmt::format("w{}a8, group {}, codebook {}, correction {}, scales {}", g.bits, g.group, g.codebook, g.correction, g.scale_type),
            rows, columns);
  const std::int64_t groups = columns / g.group, row_bytes = columns * g.bits / 8;
  const auto codes = random_bytes(random, rows * row_bytes);
  const auto channel = random_floats(random, rows), book = random_floats(random, 16), correction = random_floats(random, groups * rows);
  std::vector<float> relative = random_floats(random, rows * groups);
  for (float& v : relative) v *= 20;
  const std::string small = random_e4m3(random, rows * groups);
  if (g.scale_type == "F32")
    out.file.add_floats("l.weight_s_rel", {rows, groups}, relative);
  else
    out.file.add("l.weight_s_rel", g.scale_type, {rows, groups}, small);
  out.file.add("l.weight", "I8", {rows, row_bytes}, codes);
  out.file.add_floats("l.weight_s_channel", {rows}, channel);
  if (g.codebook) out.file.add_floats("l.weight_codebook", {16}, book);
  if (g.correction) out.file.add_floats("l.weight_correction", {groups, rows}, correction);
  out.file.add_text("l.comfy_quant",
                    fmt::format(R"({{"format":"asym_w4a8_int8","group_size":{},"convrot_groupsize":{}}})", g.group, g.rotation));
  out.rotation = g.rotation;
  out.integer = [=](std::int64_t n, std::int64_t k) {
    const float scale = g.scale_type == "F32" ? float_at(relative, n * groups + k / g.group) : e4m3(small, n * groups + k / g.group);
    if (g.bits == 6) {
      const std::int64_t row = n * row_bytes;
      const int low = (byte_at(codes, row + k / 2) >> (k % 2 * 4)) & 15,
                high = (byte_at(codes, row + columns / 2 + k / 4) >> (2 * (k % 4))) & 3;
      return to_grid(static_cast<float>(low + 16 * high - 32) * scale);
    }
    const int code = low_first(codes, n * columns + k);
    return to_grid((g.codebook ? float_at(book, code) : static_cast<float>(code - 8)) * scale);
  };
  out.value = [=, q = out.integer](std::int64_t n, std::int64_t k) {
    const float v = static_cast<float>(q(n, k)) * float_at(channel, n);
    return g.correction ? v + float_at(correction, k / g.group * rows + n) : v;
  };
  return out;
}

Sample w4a4_sample(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t rotation) {
  Sample out = start("w4a4", rows, columns);
  const auto codes = random_bytes(random, rows * columns / 2);
  const auto scale = random_floats(random, rows);
  out.file.add("l.weight", "I8", {rows, columns / 2}, codes);
  out.file.add_floats("l.weight_scale", {rows}, scale);
  out.file.add_text(
      "l.comfy_quant",
      fmt::format(R"({{"format":"convrot_w4a4","convrot_groupsize":{},"quant_group_size":64,"linear_dtype":"int8"}})", rotation));
  out.rotation = rotation;
  out.integer = [=](std::int64_t n, std::int64_t k) {
    const int code = low_first(codes, n * columns + k);
    return code < 8 ? code : code - 16;
  };
  out.value = [=, q = out.integer](std::int64_t n, std::int64_t k) { return static_cast<float>(q(n, k)) * float_at(scale, n); };
  return out;
}

Sample fp8_sample(Random& random, std::int64_t rows, std::int64_t columns, bool e5m2, const std::string& how) {
  Sample out = start(fmt::format("fp8 {} {}", e5m2 ? "e5m2" : "e4m3", how), rows, columns);
  auto codes = random_bytes(random, rows * columns);
  const auto decode = e5m2 ? f8_e5m2_to_f32 : f8_e4m3_to_f32;
  for (char& c : codes)
    if (!std::isfinite(decode(static_cast<std::uint8_t>(c)))) c = 1;
  const auto scale = random_floats(random, rows);
  const char* type = e5m2 ? "F8_E5M2" : "F8_E4M3";
  out.file.add("l.weight", type, {rows, columns}, codes);
  if (how == "row scales") out.file.add_floats("l.weight_scale", {rows, 1}, scale);
  if (how == "one scale") out.file.add_floats("l.weight_scale", {}, {scale[0]});
  if (how == "legacy") {
    out.file.add_floats("l.scale_weight", {1}, {scale[0]});
    out.file.add_floats("l.scale_input", {1}, {3});
    out.file.add("scaled_fp8", type, {0}, "");
  } else if (how != "plain") {
    out.file.add_text("l.comfy_quant", fmt::format(R"({{"format":"{}"}})", e5m2 ? "float8_e5m2" : "float8_e4m3fn"));
  }
  out.value = [=](std::int64_t n, std::int64_t k) {
    const float v = decode(byte_at(codes, n * columns + k));
    return how == "plain" ? v : v * float_at(scale, how == "row scales" ? n : 0);
  };
  return out;
}

Sample nvfp4_sample(Random& random, std::int64_t rows, std::int64_t columns, bool factors) {
  static constexpr float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  Sample out = start(factors ? "nvfp4 with factors" : "nvfp4", rows, columns);
  const auto codes = random_bytes(random, rows * columns / 2);
  const auto shape = tiled_shape(rows, columns / 16);
  auto scales = random_e4m3(random, area(shape));
  const float scale_2 = 0.37f;
  const auto factor = random_floats(random, columns);
  out.file.add("l.weight", "U8", {rows, columns / 2}, codes);
  out.file.add("l.weight_scale", "F8_E4M3", shape, scales);
  out.file.add_floats("l.weight_scale_2", {}, {scale_2});
  if (factors) out.file.add_floats("l.pre_quant_scale", {columns}, factor);
  out.file.add_text("l.comfy_quant", R"({"format":"nvfp4","full_precision_matrix_mult":true})");
  out.value = [=](std::int64_t n, std::int64_t k) {
    const int code = high_first(codes, n * columns + k);
    const float v = (code < 8 ? e2m1[code] : -e2m1[code - 8]) * (e4m3(scales, tiled(n, k / 16, columns / 16)) * scale_2);
    return factors ? v * float_at(factor, k) : v;
  };
  return out;
}

Sample mxfp8_sample(Random& random, std::int64_t rows, std::int64_t columns) {
  Sample out = start("mxfp8", rows, columns);
  const auto codes = random_e4m3(random, rows * columns);
  const auto shape = tiled_shape(rows, columns / 32);
  std::string scales = random_bytes(random, area(shape));
  for (char& c : scales) c = static_cast<char>(static_cast<std::uint8_t>(c) % 8 == 0 ? 0 : 110 + static_cast<std::uint8_t>(c) % 30);
  out.file.add("l.weight", "F8_E4M3", {rows, columns}, codes);
  out.file.add("l.weight_scale", "U8", shape, scales);
  out.file.add_text("l.comfy_quant", R"({"format":"mxfp8"})");
  out.value = [=](std::int64_t n, std::int64_t k) {
    const int e = byte_at(scales, tiled(n, k / 32, columns / 32));
    return e4m3(codes, n * columns + k) * (e == 0 ? 0.0f : std::ldexp(1.0f, e - 127));
  };
  return out;
}

Sample awq_sample(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t group) {
  Sample out = start(fmt::format("awq, group {}", group), rows, columns);
  const std::int64_t groups = columns / group;
  const auto codes = random_bytes(random, rows * columns / 2);
  const auto scale = random_floats(random, groups * rows), zeros = random_floats(random, groups * rows);
  out.file.add("l.weight", "I8", {rows, columns / 2}, codes);
  out.file.add_floats("l.weight_scale", {groups, rows}, scale);
  out.file.add_floats("l.weight_zeros", {groups, rows}, zeros);
  out.file.add_text("l.comfy_quant", fmt::format(R"({{"format":"awq_w4a16","group_size":{}}})", group));
  out.value = [=](std::int64_t n, std::int64_t k) {
    const std::int64_t at = k / group * rows + n;
    return static_cast<float>(low_first(codes, n * columns + k) - 8) * float_at(scale, at) + float_at(zeros, at);
  };
  return out;
}

Sample nf4_sample(Random& random, std::int64_t rows, std::int64_t columns, bool nested, const std::string& rounding) {
  Sample out = start(fmt::format("nf4 {} {}", nested ? "nested" : "flat", rounding), rows, columns);
  const std::int64_t n_all = rows * columns, blocks = (n_all + 63) / 64, outer = (blocks + 255) / 256;
  const auto codes = random_bytes(random, (n_all + 1) / 2), absmax = random_bytes(random, blocks);
  const auto map = random_floats(random, 16), flat = random_floats(random, blocks), nested_absmax = random_floats(random, outer),
             nested_map = random_floats(random, 256);
  const float offset = 0.0625f;
  const std::string base = fmt::format(R"("quant_type":"nf4","blocksize":64,"dtype":"{}","shape":[{},{}])", rounding, rows, columns);
  out.file.add("l.weight", "U8", {(n_all + 1) / 2, 1}, codes);
  out.file.add_floats("l.weight.quant_map", {16}, map);
  if (nested) {
    out.file.add("l.weight.absmax", "U8", {blocks}, absmax);
    out.file.add_floats("l.weight.nested_absmax", {outer}, nested_absmax);
    out.file.add_floats("l.weight.nested_quant_map", {256}, nested_map);
    out.file.add_text("l.weight.quant_state.bitsandbytes__nf4",
                      "{" + base + R"(,"nested_blocksize":256,"nested_dtype":"float32","nested_offset":0.0625})");
  } else {
    out.file.add_floats("l.weight.absmax", {blocks}, flat);
    out.file.add_text("l.weight.quant_state.bitsandbytes__nf4", "{" + base + "}");
  }
  out.value = [=](std::int64_t n, std::int64_t k) {
    const std::int64_t i = n * columns + k, block = i / 64;
    const float scale =
        nested ? float_at(nested_map, byte_at(absmax, block)) * float_at(nested_absmax, block / 256) + offset : float_at(flat, block);
    const float v = float_at(map, high_first(codes, i)) * scale;
    if (rounding == "bfloat16") return bf16_to_f32(f32_to_bf16(v));
    return rounding == "float16" ? f16_to_f32(f32_to_f16(v)) : v;
  };
  return out;
}

}  // namespace

std::string QuantFile::bytes() const {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) out.push_back(static_cast<char>(text.size() >> (8 * i) & 0xFFu));
  return out + text + data;
}

OpenedFile::OpenedFile(const QuantFile& file) {
  auto opened = Checkpoint::open(folder.write("model.safetensors", file.bytes()));
  if (!opened.ok()) {
    error = opened.error().text();
    return;
  }
  checkpoint = std::make_unique<Checkpoint>(std::move(opened).value());
  auto tensors = LogicalTensors::open(*checkpoint);
  if (tensors.ok())
    logical = std::make_unique<LogicalTensors>(std::move(tensors).value());
  else
    error = tensors.error().text();
}

std::string refusal(const QuantFile& file) {
  const OpenedFile opened(file);
  if (!opened.logical) return opened.error;
  for (const auto& [name, tensor] : opened.logical->all())
    if (const auto values = opened.logical->read_f32(tensor); !values.ok()) return values.error().text();
  return "";
}

QuantFile int8_layer(const std::string& layer) {
  QuantFile file;
  file.add(layer + ".weight", "I8", {4, 64}, std::string(256, '\3'));
  file.add_floats(layer + ".weight_scale", {4, 1}, {1, 2, 3, 4});
  return file;
}
QuantFile marked(const std::string& marker) {
  QuantFile file = int8_layer();
  file.add_text("l.comfy_quant", marker);
  return file;
}
QuantFile with_metadata(const std::string& json, const std::string& layer) {
  QuantFile file = int8_layer(layer);
  file.metadata["_quantization_metadata"] = json;
  return file;
}

void expect_refused(const QuantFile& file, std::initializer_list<std::string_view> parts) {
  const std::string said = refusal(file);
  EXPECT_FALSE(said.empty());
  EXPECT_NE(said.find("model.safetensors"), std::string::npos) << said;
  for (const std::string_view part : parts) EXPECT_NE(said.find(part), std::string::npos) << said << "\n  expected: " << part;
}

std::vector<double> Sample::weights() const {
  static constexpr int h4[4][4] = {{1, 1, 1, -1}, {1, 1, -1, 1}, {1, -1, 1, 1}, {-1, 1, 1, 1}};
  const auto sign = [this](std::int64_t i, std::int64_t j) {
    int product = 1;
    for (std::int64_t rest = rotation; rest > 1; rest /= 4, i /= 4, j /= 4) product *= h4[i % 4][j % 4];
    return product;
  };
  std::vector<double> out;
  for (std::int64_t n = 0; n < rows; ++n)
    for (std::int64_t k = 0; k < columns; ++k) {
      if (rotation == 0) {
        out.push_back(value(n, k));
        continue;
      }
      double sum = 0;
      const std::int64_t first = k / rotation * rotation;
      for (std::int64_t i = 0; i < rotation; ++i) sum += static_cast<double>(value(n, first + i)) * sign(i, k - first);
      out.push_back(sum / std::sqrt(static_cast<double>(rotation)));
    }
  return out;
}

std::vector<Sample> all_samples(std::uint32_t seed, bool odd) {
  Random random(seed);
  const std::int64_t rows = odd ? 7 : 132, few = odd ? 1 : 3;
  std::vector<Sample> out;
  out.reserve(40);
  const std::vector<std::vector<std::int64_t>> scale_shapes = {{rows, 1}, {rows}, {1}, {}};
  for (const auto& shape : scale_shapes) out.push_back(int8_sample(random, rows, odd ? 37 : 128, 0, shape));
  for (const std::int64_t rotation : {4, 16, 64, 256}) out.push_back(int8_sample(random, rows, rotation * few, rotation, {rows, 1}));
  out.push_back(grouped_sample(random, rows, odd ? 48 : 320, {}));
  out.push_back(grouped_sample(random, rows, odd ? 16 : 320, {4, 4, 4, false, false, "F32"}));
  out.push_back(grouped_sample(random, rows, odd ? 96 : 288, {4, 48, 16, true, false, "U8"}));
  out.push_back(grouped_sample(random, rows, odd ? 32 : 256, {4, 32, 16, false, true, "F32"}));
  out.push_back(grouped_sample(random, rows, odd ? 32 : 288, {6, 16, 16, false, false, "F8_E4M3"}));
  out.push_back(grouped_sample(random, rows, odd ? 96 : 768, {6, 48, 16, false, false, "F32"}));
  out.push_back(w4a4_sample(random, rows, odd ? 4 : 256, odd ? 4 : 64));
  for (const char* how : {"one scale", "row scales", "legacy", "plain"})
    for (const bool e5m2 : {false, true}) out.push_back(fp8_sample(random, rows, odd ? 33 : 64, e5m2, how));
  out.push_back(nvfp4_sample(random, rows, odd ? 48 : 128, false));
  out.push_back(nvfp4_sample(random, odd ? 1 : 260, odd ? 16 : 192, true));
  out.push_back(mxfp8_sample(random, rows, odd ? 96 : 256));
  out.push_back(awq_sample(random, rows, odd ? 192 : 256, 64));
  out.push_back(awq_sample(random, rows, odd ? 6 : 96, odd ? 2 : 32));
  for (const bool nested : {false, true})
    for (const char* rounding : {"bfloat16", "float16", "float32"})
      out.push_back(nf4_sample(random, rows, odd ? 33 : 320, nested, rounding));
  return out;
}

}  // namespace tritium::test
