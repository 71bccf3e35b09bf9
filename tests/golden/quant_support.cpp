#include "golden/quant_support.h"

#include "weights/quant/rotation.h"

#include <gtest/gtest.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tritium::quant_test {
namespace {

template <class T>
T value_or_die(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "golden data: %s\n", result.error().text().c_str());
  std::exit(1);
}

double largest(std::span<const float> values) {
  double out = 0;
  for (const float v : values) out = std::max(out, std::abs(static_cast<double>(v)));
  return out;
}

std::uint16_t u16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] | p[1] << 8); }

// Value i of one block.
float unpack_value(BlockType type, const std::uint8_t* p, std::int64_t i) {
  static constexpr std::array<float, 8> e2m1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const auto half = [](std::uint8_t byte, bool low) { return static_cast<unsigned>(low ? byte & 15 : byte >> 4); };
  switch (type) {
    case BlockType::q8_0:
      return f16_to_f32(u16(p)) * static_cast<float>(static_cast<std::int8_t>(p[2 + i]));
    case BlockType::q4_0:
      return f16_to_f32(u16(p)) * (static_cast<float>(half(p[2 + i % 16], i < 16)) - 8);
    case BlockType::q4_1:
      return f16_to_f32(u16(p)) * static_cast<float>(half(p[4 + i % 16], i < 16)) + f16_to_f32(u16(p + 2));
    case BlockType::nvfp4: {
      const unsigned code = half(p[4 + i / 16 * 8 + i % 8], i % 16 < 8);
      return f8_e4m3_to_f32(p[i / 16]) * (code < 8 ? e2m1[code] : -e2m1[code - 8]);
    }
    case BlockType::bf16:
      return bf16_to_f32(u16(p));
  }
  __builtin_unreachable();
}

}  // namespace

Model::Model(const std::string& relative) : file("weights/" + relative), tensors(value_or_die(LogicalTensors::open(file.checkpoint()))) {}

MatrixReader Model::reader(const std::string& name) const {
  const LogicalTensor* tensor = tensors.find(name);
  if (tensor == nullptr) return value_or_die(Result<MatrixReader>(Error{ErrorCode::model, "tensor is missing", name, ""}));
  return value_or_die(MatrixReader::open(file.checkpoint(), *tensor));
}

std::vector<float> decoded(const MatrixReader& reader, std::int64_t begin, std::int64_t end) {
  if (end < 0) end = reader.rows();
  std::vector<float> out(static_cast<std::size_t>((end - begin) * reader.columns()), NAN);
  const auto done = reader.decode_rows(begin, end, out);
  EXPECT_TRUE(done.ok()) << done.error().text();
  return out;
}

std::vector<float> grid_of(const MatrixReader& reader) {
  std::vector<std::int8_t> out(static_cast<std::size_t>(reader.rows() * reader.columns()), -128);
  const auto done = reader.grid_rows(0, reader.rows(), out);
  EXPECT_TRUE(done.ok()) << done.error().text();
  return {out.begin(), out.end()};
}

void expect_close(const std::string& what, std::span<const float> got, std::span<const float> expected, double tolerance) {
  golden::expect_within(what, golden::max_abs_diff(got, expected) / std::max(largest(expected), 1e-30), tolerance);
}

void expect_equal(const std::string& what, std::span<const float> got, std::span<const float> expected) {
  golden::expect_within(what, golden::max_abs_diff(got, expected), 0);
}

std::vector<float> rotated_in_double(const MatrixReader& reader) {
  static constexpr int h4[4][4] = {{1, 1, 1, -1}, {1, 1, -1, 1}, {1, -1, 1, 1}, {-1, 1, 1, 1}};
  const auto group = static_cast<std::size_t>(reader.quant()->rotation), width = static_cast<std::size_t>(reader.columns());
  const auto sign = [group](std::size_t i, std::size_t j) {  // of the Kronecker power: the digits of i and j to base 4
    int product = 1;
    for (std::size_t rest = group; rest > 1; rest /= 4, i /= 4, j /= 4) product *= h4[i % 4][j % 4];
    return product;
  };
  const auto grid = grid_of(reader), scales = reader.row_scales();
  std::vector<float> out(grid.size());
  for (std::size_t at = 0; at < grid.size(); at += group)
    for (std::size_t j = 0; j < group; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < group; ++i) sum += static_cast<double>(grid[at + i]) * sign(i, j);
      out[at + j] = static_cast<float>(sum / std::sqrt(static_cast<double>(group)) * static_cast<double>(scales[at / width]));
    }
  return out;
}

std::vector<float> linear(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& bias, std::int64_t columns) {
  const auto width = static_cast<std::size_t>(columns), rows = w.size() / width;
  std::vector<float> out;
  for (std::size_t m = 0; m < x.size() / width; ++m)
    for (std::size_t n = 0; n < rows; ++n) {
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[n]);
      for (std::size_t k = 0; k < width; ++k) sum += static_cast<double>(x[m * width + k]) * static_cast<double>(w[n * width + k]);
      out.push_back(static_cast<float>(sum));
    }
  return out;
}

std::vector<float> unpack_blocks(BlockType type, std::span<const std::uint8_t> bytes) {
  const BlockLayout& layout = block_layout(type);
  std::vector<float> out;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(layout.bytes))
    for (std::int64_t i = 0; i < layout.values; ++i) out.push_back(unpack_value(type, bytes.data() + at, i));
  return out;
}

std::vector<std::uint8_t> encoded(const BlockEncoder& encoder, std::int64_t rows) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(rows * encoder.row_bytes()), 0xEE);
  const auto done = encoder.encode_rows(0, rows, out);
  EXPECT_TRUE(done.ok()) << done.error().text();
  return out;
}

std::vector<float> decoded_blocks(const MatrixReader& reader, const BlockEncoder& encoder) {
  std::vector<float> out = unpack_blocks(encoder.type(), encoded(encoder, reader.rows()));
  const auto width = static_cast<std::size_t>(reader.columns());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= encoder.row_scale().empty() ? 1.0f : encoder.row_scale()[i / width];
  if (encoder.rotation() != 0) rotate(out, encoder.rotation());
  return out;
}

std::map<std::string, std::string> all_tags(const nlohmann::json& cases) {
  std::map<std::string, std::string> out;
  for (const auto& [name, one] : cases.items())
    for (const auto& [layer, facts] : one["layers"].items()) out[facts["tag"].get<std::string>()] = layer;
  return out;
}

Reference parse_reference(const std::string& text) {
  std::istringstream words(text);
  Reference out;
  std::string kind, tags;
  words >> out.file >> kind >> tags;
  if (out.file.ends_with(',')) out.file.pop_back();
  for (std::size_t at = 0; at < tags.size(); at = tags.find(',', at) == std::string::npos ? tags.size() : tags.find(',', at) + 1)
    out.tags.push_back(tags.substr(at, tags.find(',', at) - at));
  if (!out.file.ends_with(".safetensors") || (kind != "tag" && kind != "tags" && kind != "layer") || out.tags.empty())
    return value_or_die(Result<Reference>(Error{ErrorCode::failure, "cannot understand the reference '" + text + "'", "", ""}));
  return out;
}

}  // namespace tritium::quant_test
