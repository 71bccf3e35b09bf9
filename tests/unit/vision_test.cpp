// The vision tower and the text stack with pictures, on the demonstration model: what depends on what, memory, and refusals.
#include "base/files.h"
#include "model/prompt/presentation.h"
#include "model/text/text_model.h"
#include "model/vision/frame.h"
#include "model/vision/gelu.h"
#include "model/vision/tower.h"
#include "pipeline/vision_input.h"
#include "unit/temp_folder.h"
#include "weights/safetensors_writer.h"
#include "weights/text_names.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tritium {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA";

template <class T>
T value_or_abort(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::abort();
  }
  return std::move(result).value();
}

std::string demo_text(const std::string& name) { return value_or_abort(read_file(kDemo / "text_encoder" / name)); }

// Loaded once for all tests.
struct Demo {
  std::unique_ptr<Device> device = value_or_abort(Device::open("CPU", 2));
  std::shared_ptr<const WeightPart> part = value_or_abort(WeightPart::open(kDemo / "text_encoder"));
  VisionConfig config = value_or_abort(parse_vision_config(demo_text("config.json")));
  VisionTower tower = value_or_abort(VisionTower::load(*device, *part, config, MatrixPrecision::f32));
  TextModel text =
      value_or_abort(TextModel::load(*device, part, value_or_abort(parse_text_config(demo_text("config.json"))), MatrixPrecision::f32));
  Tokenizer tokenizer = value_or_abort(Tokenizer::load(kDemo / "tokenizer"));

  [[nodiscard]] VisionRules image_rules() const {
    return {config.patch,
            value_or_abort(parse_resize_limits(demo_text("preprocessor_config.json"), "preprocessor_config.json", config.patch))};
  }
};

const Demo& demo() {
  static const Demo loaded;
  return loaded;
}

// A disc of one colour on another.
Picture drawn(int side, std::array<int, 3> disc, std::array<int, 3> ground) {
  Picture out{side, side, {}};
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x)
      for (std::size_t c = 0; c < 3; ++c)
        out.rgb.push_back(static_cast<std::uint8_t>(std::hypot(x - side / 2, y - side / 2) < side / 4 ? disc[c] : ground[c]));
  return out;
}

std::vector<float> random_patches(const PatchGrid& grid, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(static_cast<std::size_t>(grid.patches() * demo().config.patch.features()));
  for (float& value : out) value = uniform(engine);
  return out;
}

VisionRows encode(std::span<const float> patches, const std::vector<PatchGrid>& grids) {
  return value_or_abort(demo().tower.encode(VisionModality::image, patches, grids));
}

double difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / norm);
}

double largest_difference(const VisionRows& a, const VisionRows& b) {
  if (a.deepstack.size() != b.deepstack.size()) return std::numeric_limits<double>::infinity();
  double worst = difference(a.merged, b.merged);
  for (std::size_t i = 0; i < a.deepstack.size(); ++i) worst = std::max(worst, difference(a.deepstack[i], b.deepstack[i]));
  return worst;
}

// ---- from a picture to the conditioning --------------------------------------------------------------------------------------------

struct Request {
  Presentation presentation;
  VisionInputs vision;
};

Request with_keyframe(const Picture& picture) {
  const PatchRows rows = value_or_abort(prepare_image(picture, demo().image_rules()));
  Request out;
  out.presentation = value_or_abort(present_fl2va(demo().tokenizer, "a red disc moves right", std::span(&rows.grid, 1)));
  out.vision.pads = demo().config.pads;
  out.vision.images = value_or_abort(demo().tower.encode(VisionModality::image, rows.values, std::span(&rows.grid, 1)));
  return out;
}

TEST(VisionPrompt, ADrawnPictureGivesNineTokens) {
  const Request request = with_keyframe(drawn(96, {220, 30, 30}, {240, 240, 240}));
  EXPECT_EQ(std::count(request.presentation.ids.begin(), request.presentation.ids.end(), demo().config.pads.image), 9);
  EXPECT_EQ(static_cast<std::int64_t>(request.vision.images.merged.size()), 9 * demo().config.out_hidden);
  ASSERT_EQ(request.vision.images.deepstack.size(), demo().config.deepstack_blocks.size());
  for (const auto& set : request.vision.images.deepstack) EXPECT_EQ(set.size(), request.vision.images.merged.size());
}

TEST(VisionPrompt, AnotherPictureGivesAnotherConditioning) {
  const Request red = with_keyframe(drawn(96, {220, 30, 30}, {240, 240, 240})),
                blue = with_keyframe(drawn(96, {30, 30, 220}, {240, 240, 240}));
  ASSERT_EQ(red.presentation.ids, blue.presentation.ids);
  const auto rows = [](const Request& request, const VisionRows& images) {
    return value_or_abort(demo().text.encode(request.presentation.ids, request.presentation.positions, {request.vision.pads, images, {}}));
  };
  const std::vector<float> a = rows(red, red.vision.images), b = rows(blue, blue.vision.images);
  EXPECT_GT(difference(a, b), 1e-3);
  EXPECT_EQ(a, rows(red, red.vision.images));
  // Tokens before the picture cannot see it.
  const auto first = static_cast<std::size_t>(std::find(red.presentation.ids.begin(), red.presentation.ids.end(), red.vision.pads.image) -
                                              red.presentation.ids.begin());
  const std::size_t hidden = static_cast<std::size_t>(demo().config.out_hidden);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(first * hidden), b.begin()));
  // Every deepstack set counts.
  for (std::size_t set = 0; set < red.vision.images.deepstack.size(); ++set) {
    VisionRows without = red.vision.images;
    std::fill(without.deepstack[set].begin(), without.deepstack[set].end(), 0.0f);
    EXPECT_GT(difference(rows(red, without), a), 1e-4) << set;
  }
}

TEST(VisionPrompt, TextAloneIsTheSameEitherWay) {
  const Presentation text = value_or_abort(present_t2va(demo().tokenizer, "a blue star"));
  EXPECT_EQ(value_or_abort(demo().text.encode(text.ids, text.positions)),
            value_or_abort(demo().text.encode(text.ids, text.positions, {demo().config.pads, {}, {}})));
}

TEST(VisionPrompt, RowsMustMatchThePads) {
  const Request good = with_keyframe(drawn(96, {0, 200, 0}, {0, 0, 0}));
  const auto refused = [&](const char* what, auto change) {
    VisionInputs vision = good.vision;
    change(vision);
    const auto result = demo().text.encode(good.presentation.ids, good.presentation.positions, vision);
    ASSERT_FALSE(result.ok()) << what;
    EXPECT_EQ(result.error().code, ErrorCode::failure) << what;
  };
  const auto hidden = static_cast<std::size_t>(demo().config.out_hidden);
  refused("no rows", [](VisionInputs& v) { v.images = {}; });
  refused("a row too few", [&](VisionInputs& v) { v.images.merged.resize(8 * hidden); });
  refused("a row too many", [&](VisionInputs& v) { v.images.merged.resize(10 * hidden); });
  refused("part of a row", [](VisionInputs& v) { v.images.merged.pop_back(); });
  refused("rows for absent pads", [](VisionInputs& v) { v.videos = v.images; });
  refused("a short deepstack set", [](VisionInputs& v) { v.images.deepstack.back().pop_back(); });
  refused("more sets than layers", [](VisionInputs& v) { v.images.deepstack.resize(100, v.images.merged); });
}

// ---- the tower -------------------------------------------------------------------------------------------------------------------

TEST(VisionTower, PicturesAndFramesDoNotSeeEachOther) {
  const PatchGrid a{1, 4, 6}, b{2, 6, 2};
  const std::vector<float> first = random_patches(a, 1), second = random_patches(b, 2);
  std::vector<float> joined = first;
  joined.insert(joined.end(), second.begin(), second.end());
  VisionRows apart = encode(first, {a});
  const std::size_t half = second.size() / 2;
  apart.append(encode(std::span(second).first(half), {{1, b.h, b.w}}));
  apart.append(encode(std::span(second).subspan(half), {{1, b.h, b.w}}));
  const VisionRows together = encode(joined, {a, b});
  EXPECT_EQ(together.merged, apart.merged);
  EXPECT_EQ(together.deepstack, apart.deepstack);
}

TEST(VisionTower, SlicesOfRowsChangeNothing) {
  const PatchGrid grid{1, 6, 10};
  const std::vector<float> patches = random_patches(grid, 3);
  const VisionWeights weights =
      value_or_abort(load_vision_weights(*demo().device, *demo().part, demo().config, MatrixPrecision::f32, nullptr, {}));
  const VisionRows whole = encode(patches, {grid});
  for (const std::int64_t rows : {1, 4, 7, 16, 59, 60, 1000}) {
    VisionFrame frame(*demo().device, demo().config, weights, grid, rows);
    ASSERT_TRUE(frame.allocate().ok());
    VisionRows sliced;
    const auto done = frame.encode("vision", patches, sliced, nullptr, {});
    ASSERT_TRUE(done.ok()) << done.error().text();
    EXPECT_LT(largest_difference(sliced, whole), 1e-6) << rows;
  }
}

TEST(VisionTower, Bfloat16IsClose) {
  const PatchGrid grid{1, 6, 6};
  const std::vector<float> patches = random_patches(grid, 4);
  const VisionTower half = value_or_abort(VisionTower::load(*demo().device, *demo().part, demo().config, MatrixPrecision::bf16));
  EXPECT_LT(largest_difference(value_or_abort(half.encode(VisionModality::image, patches, std::span(&grid, 1))), encode(patches, {grid})),
            3e-2);
  EXPECT_LT(value_or_abort(VisionTower::weight_bytes(*demo().part, demo().config, MatrixPrecision::bf16)),
            value_or_abort(VisionTower::weight_bytes(*demo().part, demo().config, MatrixPrecision::f32)));
}

// The estimate covers what is really taken, is not far above it, and grows with the patches, not with their square.
TEST(VisionTower, MemoryIsBoundedAndKnown) {
  const PatchGrid grid{1, 72, 72};  // more than one slice of rows
  const auto device = value_or_abort(Device::open("CPU", 2));
  device->set_fast_kernels(false);  // they take less: the estimate holds for every device
  const VisionTower tower = value_or_abort(VisionTower::load(*device, *demo().part, demo().config, MatrixPrecision::f32));
  ASSERT_TRUE(tower.encode(VisionModality::image, random_patches(grid, 5), std::span(&grid, 1)).ok());
  const std::uint64_t estimate = VisionTower::working_bytes(demo().config, grid);
  EXPECT_GE(estimate, device->working_bytes());
  EXPECT_LE(estimate, device->working_bytes() * 3 / 2);
  const std::uint64_t half = VisionTower::working_bytes(demo().config, {1, 128, 256}),
                      most = VisionTower::working_bytes(demo().config, {1, 256, 256});
  EXPECT_LT(most, 2 * half);
  EXPECT_EQ(VisionTower::working_bytes(demo().config, {9, 72, 72}), estimate);
}

TEST(VisionTower, RefusesGridsThatDoNotFit) {
  const std::vector<float> patches = random_patches({1, 4, 4}, 6);
  for (const PatchGrid& grid :
       {PatchGrid{1, 4, 6}, {2, 4, 4}, {1, 3, 4}, {1, 16, 1}, {0, 4, 4}, {-1, 4, -4}, {1, 1 << 20, 2}, {std::int64_t{1} << 60, 4, 4}}) {
    const auto result = demo().tower.encode(VisionModality::image, patches, std::span(&grid, 1));
    ASSERT_FALSE(result.ok()) << grid.t << 'x' << grid.h << 'x' << grid.w;
    EXPECT_EQ(result.error().code, ErrorCode::failure);
  }
  EXPECT_TRUE(encode({}, {}).merged.empty());
}

TEST(VisionTower, ReportsWhatIsNotFinite) {
  const PatchGrid grid{1, 2, 2};
  std::vector<float> patches = random_patches(grid, 7);
  patches[5] = std::numeric_limits<float>::quiet_NaN();
  const auto result = demo().tower.encode(VisionModality::video, patches, std::span(&grid, 1));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::rejected);
  EXPECT_NE(result.error().message.find("vision.video.frame0.block0"), std::string::npos) << result.error().text();
}

TEST(VisionTower, CountsBlocksAndCanBeCancelled) {
  const PatchGrid grid{2, 2, 4};
  CancelToken cancel;
  int calls = 0, last = 0;
  const auto progress = [&](int done, int total) {
    EXPECT_EQ(done, ++calls);
    EXPECT_EQ(total, 2 * demo().config.depth);
    last = done;
    if (done == demo().config.depth) cancel.cancel();
  };
  const auto result = demo().tower.encode(VisionModality::video, random_patches(grid, 8), std::span(&grid, 1), &cancel, progress);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::interrupted);
  EXPECT_EQ(last, demo().config.depth);
}

// ---- files -----------------------------------------------------------------------------------------------------------------------

// The demonstration model's vision tensors under other names, and without one of them.
std::shared_ptr<const WeightPart> renamed(const test::TempFolder& folder, const std::string& prefix, const std::string& left_out = {}) {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const std::string& name : demo().part->checkpoint().names()) {
    const std::size_t at = name.find("visual.");
    if (at == std::string::npos || name.substr(at + 7) == left_out) continue;
    values.push_back(value_or_abort(demo().part->checkpoint().read_f32(name)));
    tensors.push_back({prefix + name.substr(at), demo().part->checkpoint().find(name)->shape, {}});
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].values = values[i];
  const auto path = folder.path() / "model.safetensors";
  EXPECT_TRUE(write_safetensors(path, tensors).ok());
  return value_or_abort(open_text_encoder(std::make_shared<const Checkpoint>(value_or_abort(Checkpoint::open(path)))));
}

TEST(VisionTower, AcceptsTheNamesOfRepacks) {
  const PatchGrid grid{1, 2, 4};
  const std::vector<float> patches = random_patches(grid, 9);
  const VisionRows expected = encode(patches, {grid});
  for (const char* prefix : {"", "model.", "qwen3vl_32b.transformer.", "text_encoders.llm.model."}) {
    const test::TempFolder folder;
    const VisionTower tower =
        value_or_abort(VisionTower::load(*demo().device, *renamed(folder, prefix), demo().config, MatrixPrecision::f32));
    EXPECT_EQ(value_or_abort(tower.encode(VisionModality::image, patches, std::span(&grid, 1))).merged, expected.merged) << prefix;
  }
}

TEST(VisionTower, SaysWhatIsMissing) {
  const auto refused = [](const std::string& left_out, const VisionConfig& config, const std::string& said) {
    const test::TempFolder folder;
    const auto bytes = VisionTower::weight_bytes(*renamed(folder, "visual-less.", left_out), config, MatrixPrecision::f32);
    ASSERT_FALSE(bytes.ok()) << left_out;
    EXPECT_EQ(bytes.error().code, ErrorCode::model);
    EXPECT_NE(bytes.error().message.find(said), std::string::npos) << bytes.error().text();
  };
  refused("patch_embed.proj.weight", demo().config, "no vision tower");
  refused("blocks.1.mlp.linear_fc2.bias", demo().config, "blocks.1.mlp.linear_fc2.bias");
  VisionConfig other = demo().config;
  other.table_side = 48;
  refused("", other, "pos_embed.weight");
  other = demo().config;
  other.deepstack_blocks.push_back(2);
  refused("", other, "deepstack_merger_list.2");
}

// ---- activations -----------------------------------------------------------------------------------------------------------------

TEST(VisionGelu, BothFormsAreExact) {
  std::vector<float> x{0.0f, -0.0f, 1e-30f, -1e-30f, 1e7f, -1e7f, 60.0f, -60.0f};
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 0.005f);
  for (const bool fast : {false, true}) {
    const auto device = value_or_abort(Device::open("CPU", 1));
    device->set_fast_kernels(fast);
    Graph graph(*device, "gelu");
    ggml_tensor* input = graph.input("x", x, {static_cast<std::int64_t>(x.size())});
    ggml_tensor* by_tanh = graph.output("tanh", gelu_tanh(graph, input));
    ggml_tensor* by_erf = graph.output("erf", gelu_erf(graph, input));
    ASSERT_TRUE(graph.run().ok());
    const std::vector<float> tanh_values = graph.read(by_tanh), erf_values = graph.read(by_erf);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], slope = std::sqrt(2 / std::acos(-1.0));
      const double tanh_form = v / 2 * (1 + std::tanh(slope * (v + 0.044715 * v * v * v))),
                   erf_form = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
      EXPECT_NEAR(tanh_values[i], tanh_form, 4e-7 * (1 + std::abs(tanh_form))) << v;
      EXPECT_NEAR(erf_values[i], erf_form, 4e-7 * (1 + std::abs(erf_form))) << v;
    }
  }
}

}  // namespace
}  // namespace tritium
