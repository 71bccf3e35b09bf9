#include "support/lora_maker.h"

#include "weights/dit_names.h"
#include "weights/safetensors_writer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace tritium::test {
namespace {

using Floats = std::vector<float>;
using Tensor = LoraMaker::Tensor;

struct Pair {
  Tensor a, b;
};

std::size_t cells(std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); }

Pair random_pair(std::mt19937& random, std::int64_t out, std::int64_t in, std::int64_t rank, float size) {
  std::uniform_real_distribution<float> value(-size, size);
  const auto tensor = [&](std::int64_t rows, std::int64_t columns) {
    Tensor t{{rows, columns}, Floats(cells(rows, columns))};
    for (float& v : t.values) v = value(random);
    return t;
  };
  Pair out_pair;
  out_pair.a = tensor(rank, in);
  out_pair.b = tensor(out, rank);
  return out_pair;
}

// A stacked, B of block structure.
Pair fused(const std::vector<Pair>& parts) {
  Pair out;
  std::int64_t rank = 0, rows = 0;
  for (const Pair& part : parts) {
    rank += part.a.shape[0];
    rows += part.b.shape[0];
    out.a.values.insert(out.a.values.end(), part.a.values.begin(), part.a.values.end());
  }
  out.a.shape = {rank, parts.front().a.shape[1]};
  out.b = {{rows, rank}, Floats(cells(rows, rank), 0.0f)};
  std::int64_t row = 0, column = 0;
  for (const Pair& part : parts) {
    const std::int64_t width = part.b.shape[1];
    for (std::int64_t i = 0; i < part.b.shape[0]; ++i, ++row)
      std::copy_n(part.b.values.begin() + i * width, width, out.b.values.begin() + row * rank + column);
    column += width;
  }
  return out;
}

// Rows [q, k, v][heads][head_dim] -> [heads][q, k, v][head_dim].
Tensor interleaved(const Tensor& b, const LoraTarget& target) {
  Tensor out = b;
  const std::int64_t width = b.shape[1];
  for (std::int64_t part = 0; part < 3; ++part)
    for (std::int64_t head = 0; head < target.heads; ++head)
      for (std::int64_t d = 0; d < target.head_dim; ++d) {
        const std::int64_t from = (part * target.heads + head) * target.head_dim + d, to = (head * 3 + part) * target.head_dim + d;
        std::copy_n(b.values.begin() + from * width, width, out.values.begin() + to * width);
      }
  return out;
}

Tensor swapped(const Tensor& b) {
  Tensor out = b;
  std::rotate(out.values.begin(), out.values.begin() + static_cast<std::ptrdiff_t>(out.values.size() / 2), out.values.end());
  return out;
}

std::string diffusers_layer(const std::string& name) {
  const std::string out = diffusers_dit_name(name + ".weight");
  return out.substr(0, out.size() - 7);
}

// Keys of one layer in one dialect.
class Writer {
 public:
  Writer(LoraStyle style, LoraMaker::Tensors& out) : style_(style), out_(out) {}

  void put(const std::string& layer, Pair pair) {
    const bool kohya = style_ == LoraStyle::kohya;
    std::string key = prefix() + layer;
    if (kohya) std::replace(key.begin(), key.end(), '.', '_');
    if (style_ == LoraStyle::mangled)
      if (const auto at = key.find("qkv_proj"); at != std::string::npos) key[at + 3] = '.';
    const bool infix = style_ == LoraStyle::diffsynth || style_ == LoraStyle::diffusers_turbo;
    const std::string end = infix ? ".default.weight" : ".weight";
    if (style_ == LoraStyle::comfy || kohya) out_[key + ".alpha"] = {{}, {static_cast<float>(pair.a.shape[0])}};
    out_[key + (kohya ? ".lora_down" : ".lora_A") + end] = std::move(pair.a);
    out_[key + (kohya ? ".lora_up" : ".lora_B") + end] = std::move(pair.b);
  }

 private:
  [[nodiscard]] std::string prefix() const {
    switch (style_) {
      case LoraStyle::diffusers_turbo:
        return "transformer.";
      case LoraStyle::comfy:
      case LoraStyle::mangled:
        return "diffusion_model.";
      case LoraStyle::double_prefix:
        return "base_model.model.diffusion_model.";
      case LoraStyle::kohya:
        return "lora_unet_";
      default:
        return {};
    }
  }
  LoraStyle style_;
  LoraMaker::Tensors& out_;
};

}  // namespace

const char* style_name(LoraStyle style) {
  constexpr const char* kNames[] = {"diffusers", "diffusers_turbo", "diffsynth", "comfy", "bare", "double_prefix", "mangled", "kohya"};
  return kNames[static_cast<int>(style)];
}

LoraMaker::Tensors LoraMaker::make(LoraStyle style) const {
  std::mt19937 random(seed);
  Tensors out;
  Writer writer(style, out);
  const bool diffusers = style == LoraStyle::diffusers || style == LoraStyle::diffusers_turbo;
  for (const LoraTarget& target : targets) {
    if (target.rows == LoraTarget::Rows::qkv) {
      std::vector<Pair> parts;
      for (int i = 0; i < 3; ++i) parts.push_back(random_pair(random, target.out / 3, target.in, rank, size));
      if (diffusers) {
        const std::string block = target.name.substr(0, target.name.size() - std::string("qkv_proj").size());
        const char* const names[] = {"q", "k", "v"};
        for (std::size_t i = 0; i < 3; ++i) writer.put(diffusers_layer(block + names[i]), parts[i]);
        continue;
      }
      Pair pair = fused(parts);
      if (style == LoraStyle::diffsynth) pair.b = interleaved(pair.b, target);
      writer.put(target.name, std::move(pair));
      continue;
    }
    const std::int64_t in = target.modulation && modulation_in > 0 ? modulation_in : target.in;
    Pair pair = random_pair(random, target.out, in, rank, size);
    if (diffusers && target.rows == LoraTarget::Rows::gate_up) pair.b = swapped(pair.b);
    writer.put(diffusers ? diffusers_layer(target.name) : target.name, std::move(pair));
  }
  return out;
}

void LoraMaker::write(const std::filesystem::path& path, LoraStyle style) const { write(path, make(style), metadata); }

void LoraMaker::write(const std::filesystem::path& path, const Tensors& tensors, const std::map<std::string, std::string>& metadata) {
  std::vector<NamedTensor> named;
  for (const auto& [name, tensor] : tensors) named.push_back({name, tensor.shape, tensor.values});
  if (const auto written = write_safetensors(path, named, metadata); !written.ok()) {
    std::fprintf(stderr, "%s\n", written.error().text().c_str());
    std::exit(1);
  }
}

}  // namespace tritium::test
