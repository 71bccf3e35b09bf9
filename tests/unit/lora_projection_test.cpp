// adaLN pairs of a full model on a pruned one.
#include "lora_files.h"

#include <cmath>
#include <random>

namespace tritium {
namespace {

using test::LoraFiles;
using test::LoraMaker;
using test::LoraStyle;
using Floats = std::vector<float>;

constexpr std::int64_t kWidth = 20, kRank = 7, kPoints = 65;

// A curve of `kRank` smooth functions mixed into `kWidth` values, and its table: exactly on it (centred: around a mean).
struct Curve {
  Floats table, g, mean;
};
Curve make_curve(bool centred) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-1, 1);
  Floats mix(static_cast<std::size_t>(kWidth * kRank));
  for (float& v : mix) v = value(random);
  Curve out;
  for (std::int64_t i = 0; i < kWidth; ++i) out.mean.push_back(centred ? 3 + value(random) : 0.0f);
  for (std::int64_t p = 0; p < kPoints; ++p) {
    const double t = static_cast<double>(p) / (kPoints - 1);
    for (std::int64_t k = 0; k < kRank; ++k) out.table.push_back(static_cast<float>(std::sin(static_cast<double>(k + 1) * 2.1 * t)));
    for (std::int64_t i = 0; i < kWidth; ++i) {
      float sum = out.mean[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < kRank; ++k)
        sum += mix[static_cast<std::size_t>(i * kRank + k)] * out.table[out.table.size() - static_cast<std::size_t>(kRank - k)];
      out.g.push_back(sum);
    }
  }
  return out;
}

// The largest difference between B·A·g and B·(A·V)·c + bias over the table.
double effect_error(const AdalnBasis& basis, const Curve& curve, const Floats& a, const Floats& b) {
  const Floats narrow = project_down(basis, a), bias = projected_bias(basis, a, b);
  const auto apply = [&](const Floats& down, const float* x, std::int64_t width) {
    std::vector<double> middle, out;
    for (std::size_t r = 0; r < down.size() / static_cast<std::size_t>(width); ++r) {
      middle.push_back(0);
      for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
        middle.back() += static_cast<double>(down[r * static_cast<std::size_t>(width) + i]) * static_cast<double>(x[i]);
    }
    for (std::size_t o = 0; o < b.size() / middle.size(); ++o) {
      out.push_back(0);
      for (std::size_t r = 0; r < middle.size(); ++r) out.back() += static_cast<double>(b[o * middle.size() + r]) * middle[r];
    }
    return out;
  };
  double most = 0;
  for (std::int64_t p = 0; p < kPoints; ++p) {
    const auto wide = apply(a, curve.g.data() + p * kWidth, kWidth);
    const auto slim = apply(narrow, curve.table.data() + p * kRank, kRank);
    for (std::size_t o = 0; o < wide.size(); ++o)
      most = std::max(most, std::abs(wide[o] - slim[o] - (bias.empty() ? 0.0 : static_cast<double>(bias[o]))));
  }
  return most;
}

TEST(LoraProjection, FittedBasesKeepTheEffect) {
  std::mt19937 random(9);
  std::uniform_real_distribution<float> value(-1, 1);
  Floats a(2 * kWidth), b(5 * 2);
  for (float& v : a) v = value(random);
  for (float& v : b) v = value(random);
  for (const bool centred : {false, true}) {
    const Curve curve = make_curve(centred);
    const auto basis = fit_adaln_basis(curve.table, curve.g, kPoints);
    ASSERT_TRUE(basis.ok()) << basis.error().text();
    EXPECT_EQ(basis->mean.empty(), !centred);
    EXPECT_LT(basis->error, 1e-6);
    EXPECT_LT(effect_error(*basis, curve, a, b), 1e-4) << centred;
  }
}

TEST(LoraProjection, AnotherModelsTimeEmbedderIsRefused) {
  Curve curve = make_curve(false);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> value(-1, 1);
  for (float& v : curve.g) v = value(random);
  const auto refused = fit_adaln_basis(curve.table, curve.g, kPoints);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("another model"), std::string::npos);
  EXPECT_FALSE(fit_adaln_basis({}, {}, 0).ok());
  EXPECT_FALSE(fit_adaln_basis(curve.table, Floats(3), kPoints).ok());
}

TEST_F(LoraFiles, StoredBasesAreReadAndChecked) {
  const auto read = [&](const LoraMaker::Tensors& tensors) {
    LoraMaker::write(path(), tensors);
    const auto checkpoint = Checkpoint::open(path());
    EXPECT_TRUE(checkpoint.ok());
    return read_adaln_basis(*checkpoint);
  };
  EXPECT_FALSE(read({{"x", {{1}, {1}}}})->has_value());
  const auto basis = read({{"adaln_basis", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"adaln_mean", {{3}, {7, 8, 9}}}});
  ASSERT_TRUE(basis.ok() && basis->has_value());
  EXPECT_EQ((*basis)->v, (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ((*basis)->mean, (Floats{7, 8, 9}));
  EXPECT_EQ(read({{"adaln_basis", {{6}, {1, 2, 3, 4, 5, 6}}}}).error().field, "adaln_basis");
  EXPECT_EQ(read({{"adaln_basis", {{1, 2}, {1, NAN}}}}).error().field, "adaln_basis");
  EXPECT_EQ(read({{"adaln_basis", {{1, 2}, {1, 2}}}, {"adaln_mean", {{3}, {1, 2, 3}}}}).error().field, "adaln_mean");
}

// B10
TEST_F(LoraFiles, B10_ModulationPairsOfTheOtherKindAreListedOrProjected) {
  LoraMaker wide = maker();
  wide.modulation_in = kWidth;
  const auto tensors = wide.make(LoraStyle::bare);
  const LoraMatch skipped = match(tensors);
  EXPECT_EQ(skipped.report.matched, targets.size() - 3);
  const auto lines = lora_report_lines(skipped.report, "a", 1);
  for (const char* layer : {"blocks.0.adaln_proj.linear", "blocks.1.adaln_proj.linear", "final_layer.adaln_proj.linear"})
    EXPECT_NE(lines.back().find(layer), std::string::npos) << lines.back();

  const Curve curve = make_curve(true);
  auto fitted = fit_adaln_basis(curve.table, curve.g, kPoints);
  ASSERT_TRUE(fitted.ok());
  LoraMatchOptions options;
  options.alpha = 4;  // a scale of 2
  options.basis = std::make_shared<const AdalnBasis>(std::move(*fitted));
  const LoraMatch projected = match(tensors, {}, options);
  EXPECT_EQ(projected.report.matched, targets.size());
  EXPECT_EQ(projected.report.projected, 3u);
  EXPECT_TRUE(projected.report.skipped.empty());
  for (const LoraAdapter& adapter : projected.adapters) {
    const LoraTarget& target = projected.targets[adapter.target];
    const auto factors = read_factors(projected, adapter);
    ASSERT_TRUE(factors.ok());
    EXPECT_EQ(factors->bias.size(), target.modulation ? static_cast<std::size_t>(target.out) : 0u) << target.name;
    if (!target.modulation) continue;
    const Floats& a = tensors.at(target.name + ".lora_A.weight").values;
    const Floats& b = tensors.at(target.name + ".lora_B.weight").values;
    const Floats bias = projected_bias(*options.basis, a, b);
    for (std::size_t i = 0; i < bias.size(); ++i) EXPECT_FLOAT_EQ(factors->bias[i], 2 * bias[i]);
    EXPECT_EQ(factors->down, project_down(*options.basis, a));
  }
}

}  // namespace
}  // namespace tritium
