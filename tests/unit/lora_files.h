// A small model's layers and LoRA files for it.
#pragma once

#include "support/lora_maker.h"
#include "unit/temp_folder.h"
#include "weights/lora/match.h"

#include <fmt/format.h>

namespace tritium::test {

inline std::vector<LoraTarget> toy_targets(int blocks = 2) {
  using Rows = LoraTarget::Rows;
  std::vector<LoraTarget> out;
  const auto block = [&](const std::string& prefix) {
    out.push_back({prefix + "attn.qkv_proj", 24, 6, Rows::qkv, 2, 4, false});
    out.push_back({prefix + "attn.out_proj", 6, 8, Rows::plain, 0, 0, false});
    out.push_back({prefix + "mlp.fc1", 10, 6, Rows::gate_up, 0, 0, false});
    out.push_back({prefix + "mlp.fc2", 6, 5, Rows::plain, 0, 0, false});
  };
  block("token_refiner.blocks.0.");
  for (int i = 0; i < blocks; ++i) {
    block(fmt::format("blocks.{}.", i));
    out.push_back({fmt::format("blocks.{}.adaln_proj.linear", i), 36, 7, Rows::plain, 0, 0, true});
  }
  out.push_back({"final_layer.adaln_proj.linear", 12, 7, Rows::plain, 0, 0, true});
  out.push_back({"condition_proj", 6, 9, Rows::plain, 0, 0, false});
  out.push_back({"final_layer.video_out", 4, 6, Rows::plain, 0, 0, false});
  return out;
}

class LoraFiles : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path(const std::string& name = "a.safetensors") const { return folder_.path() / name; }

  // Of tensors that have to be accepted as a LoRA.
  [[nodiscard]] std::shared_ptr<const LoraFile> file(const LoraMaker::Tensors& tensors,
                                                     const std::map<std::string, std::string>& metadata = {},
                                                     const std::string& name = "a.safetensors") const {
    LoraMaker::write(path(name), tensors, metadata);
    auto opened = LoraFile::open(path(name));
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    return opened.ok() ? *opened : nullptr;
  }
  [[nodiscard]] LoraMatch match(const LoraMaker::Tensors& tensors, const std::map<std::string, std::string>& metadata = {},
                                const LoraMatchOptions& options = {}) const {
    auto matched = match_lora(file(tensors, metadata), targets, options);
    EXPECT_TRUE(matched.ok()) << matched.error().text();
    return matched.ok() ? std::move(*matched) : LoraMatch{};
  }
  [[nodiscard]] Error refusal(const LoraMaker::Tensors& tensors, const std::map<std::string, std::string>& metadata = {},
                              const LoraMatchOptions& options = {}) const {
    LoraMaker::write(path(), tensors, metadata);
    const auto opened = LoraFile::open(path());
    if (!opened.ok()) return opened.error();
    const auto matched = match_lora(*opened, targets, options);
    EXPECT_FALSE(matched.ok());
    return matched.ok() ? Error{} : matched.error();
  }

  // What the file adds to each matrix: [out, in] by layer.
  static std::map<std::string, std::vector<double>> deltas(const LoraMatch& match) {
    std::map<std::string, std::vector<double>> out;
    for (const LoraAdapter& adapter : match.adapters) {
      const LoraTarget& target = match.targets[adapter.target];
      const auto factors = read_factors(match, adapter);
      EXPECT_TRUE(factors.ok()) << factors.error().text();
      if (!factors.ok()) continue;
      EXPECT_EQ(factors->down.size(), static_cast<std::size_t>(adapter.rank * target.in));
      EXPECT_EQ(factors->up.size(), static_cast<std::size_t>(adapter.rank * target.out));
      const auto rank = static_cast<std::size_t>(adapter.rank), in = static_cast<std::size_t>(target.in);
      std::vector<double>& delta = out[target.name];
      delta.assign(static_cast<std::size_t>(target.out) * in, 0.0);
      for (std::size_t o = 0; o < static_cast<std::size_t>(target.out); ++o)
        for (std::size_t i = 0; i < in; ++i)
          for (std::size_t r = 0; r < rank; ++r)
            delta[o * in + i] += static_cast<double>(factors->up[o * rank + r]) * static_cast<double>(factors->down[r * in + i]);
    }
    return out;
  }
  static double largest_difference(const std::map<std::string, std::vector<double>>& a, const std::map<std::string, std::vector<double>>& b,
                                   double factor = 1) {
    if (a.size() != b.size()) return 1e9;
    double most = 0;
    for (const auto& [name, values] : a) {
      const auto other = b.find(name);
      if (other == b.end() || other->second.size() != values.size()) return 1e9;
      for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - factor * other->second[i]));
    }
    return most;
  }

  [[nodiscard]] LoraMaker maker() const { return {targets, 2, 5, 1.0f, {}, 0}; }

  std::vector<LoraTarget> targets = toy_targets();
  TempFolder folder_;
};

}  // namespace tritium::test
