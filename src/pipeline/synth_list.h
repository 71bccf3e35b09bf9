// Collects the tensors of a synthetic part.
#pragma once

#include "weights/synth/fill.h"

#include <cmath>
#include <string>

namespace tritium {

class SynthList {
 public:
  explicit SynthList(DType natural) : natural_(natural) {}

  void add(const std::string& name, std::vector<std::int64_t> shape, SynthValues values) {
    tensors.push_back({name, std::move(shape), std::move(values), natural_});
  }
  void add_f32(const std::string& name, std::vector<std::int64_t> shape, SynthValues values) {
    tensors.push_back({name, std::move(shape), std::move(values), DType::f32});
  }
  void normal(const std::string& name, std::vector<std::int64_t> shape, float mean, float deviation) {
    add(name, std::move(shape), {mean, deviation, 0, 0, {}});
  }
  // Deviation gain/sqrt(fan in), fan in being everything but the first dimension.
  void matrix(const std::string& name, std::vector<std::int64_t> shape, float gain = 1) {
    double fan_in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= static_cast<double>(shape[i]);
    normal(name, std::move(shape), 0, gain / static_cast<float>(std::sqrt(fan_in)));
  }
  void layer(const std::string& name, std::vector<std::int64_t> shape, float gain = 1) {
    const std::int64_t out = shape.front();
    matrix(name + ".weight", std::move(shape), gain);
    bias(name + ".bias", out);
  }
  void bias(const std::string& name, std::int64_t size) { normal(name, {size}, 0, 0.02f); }
  void norm(const std::string& name, std::int64_t size) { normal(name + ".weight", {size}, 1, 0.05f); }
  void norm_with_bias(const std::string& name, std::int64_t size) {
    norm(name, size);
    bias(name + ".bias", size);
  }
  // With columns that stand out.
  void block_norm(const std::string& name, std::int64_t size) { add(name + ".weight", {size}, {1, 0.05f, 512, 6, {}}); }

  std::vector<SynthTensor> tensors;

 private:
  DType natural_;
};

}  // namespace tritium
