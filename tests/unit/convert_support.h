// Matrices to convert, and files to convert them from.
#pragma once

#include "unit/temp_folder.h"
#include "weights/convert/convert.h"
#include "weights/safetensors_writer.h"

#include <map>
#include <random>

namespace tritium::test {

// Gaussian values; with `outliers`, one column in 40 is thirty times as large, and rows differ in scale.
inline std::vector<float> random_matrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed, bool outliers = false) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      out[static_cast<std::size_t>(r * columns + c)] =
          normal(engine) * (outliers && c % 40 == 7 ? 30.0f : 1.0f) * (outliers ? 0.5f + static_cast<float>(r % 5) : 1.0f);
  return out;
}

inline double relative_error(std::span<const float> got, std::span<const float> wanted) {
  double error = 0, value = 0;
  EXPECT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
    value += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(error / value);
}

// Tensors by name; written as F32.
struct MatrixFile {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;

  void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
    tensors[name] = {std::move(shape), std::move(values)};
  }
  void write(const std::filesystem::path& path) const {
    std::vector<NamedTensor> list;
    for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.first, tensor.second});
    const Result<void> done = write_safetensors(path, list);
    ASSERT_TRUE(done.ok()) << done.error().text();
  }
};

// A transformer small enough for every test: 2 blocks, 1 refiner block; hidden and inner 256, ffn 512, modulation 64 wide.
inline MatrixFile small_transformer(std::uint32_t seed = 5, std::int64_t hidden = 256, int blocks = 2) {
  MatrixFile out;
  std::uint32_t next = seed * 1000;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    const std::int64_t columns = shape.size() > 1 ? shape[1] : 1;
    std::vector<float> values = random_matrix(shape[0], columns, next++);
    out.add(name, std::move(shape), std::move(values));
  };
  const auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    add(name + ".weight", {rows, columns});
    add(name + ".bias", {rows});
  };
  const auto block = [&](const std::string& name) {
    add(name + ".attn.qkv_proj.weight", {3 * hidden, hidden});
    add(name + ".attn.out_proj.weight", {hidden, hidden});
    add(name + ".attn.q_norm.weight", {64});
    add(name + ".attn.k_norm.weight", {64});
    add(name + ".mlp.fc1.weight", {4 * hidden, hidden});
    add(name + ".mlp.fc2.weight", {hidden, 2 * hidden});
    add(name + ".norm1.weight", {hidden});
    add(name + ".norm2.weight", {hidden});
  };
  for (int b = 0; b < blocks; ++b) {
    block("blocks." + std::to_string(b));
    linear("blocks." + std::to_string(b) + ".adaln_proj.linear", 18 * hidden, 64);
  }
  block("token_refiner.blocks.0");
  add("token_refiner.final_norm.weight", {hidden});
  linear("video_patch_proj", hidden, 96);
  linear("audio_patch_proj", hidden, 32);
  linear("condition_proj", hidden, 128);
  linear("time_embedder.proj_in", 128, 64);
  linear("time_embedder.proj_out", 64, 128);
  add("final_layer.norm.weight", {hidden});
  linear("final_layer.adaln_proj.linear", 2 * hidden, 64);
  linear("final_layer.video_out", 96, hidden);
  linear("final_layer.audio_out", 32, hidden);
  return out;
}

inline ConvertSource open_source(const std::filesystem::path& path, PartKind kind = PartKind::dit) {
  ConvertSource out;
  out.kind = kind;
  auto part = WeightPart::open(path);
  EXPECT_TRUE(part.ok()) << part.error().text();
  if (part.ok()) out.part = *part;
  if (out.part) out.names = convertible_names(kind, *out.part);
  return out;
}

inline ConvertOptions convert_to(const std::string& format, int threads = 2) {
  ConvertOptions out;
  out.format = *target_format(format);
  out.container = out.format.block_type() ? Container::gguf : Container::safetensors;
  out.threads = threads;
  out.version = "test";
  return out;
}

}  // namespace tritium::test
