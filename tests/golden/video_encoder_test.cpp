// Video VAE encoder against golden/vae: every video_encode case with all its quantities, the intermediates of the recorded runs, and the
// noise. Each with the CPU kernels and with plain ggml nodes.
#include "model/video_vae/encoder.h"

#include "base/torch_generator.h"
#include "support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>
#include <map>

namespace tritium::video_vae {
namespace {

// golden/vae/README.md, "stage tensors".
constexpr double kStageTolerance = 2e-4;
constexpr double kStageRelativeTolerance = 1e-3;
constexpr double kNoiseTolerance = 1e-6;

std::string in_vae(const std::string& file) { return "vae/" + file; }

std::vector<nlohmann::json> encode_cases() {
  std::vector<nlohmann::json> out;
  const auto document = golden::json("vae/cases.json");
  for (const auto& entry : document["cases"])
    if (entry["kind"] == "video_encode") out.push_back(entry);
  return out;
}

VideoVaeConfig config_of(const nlohmann::json& entry) {
  const auto documents = golden::json(in_vae(entry["model"].get<std::string>() + ".config.json"));
  const auto parsed = VideoVaeConfig::parse(documents["config.json"].dump(), documents["source/config.json"].dump());
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().text());
  VideoVaeConfig config = parsed.ok() ? *parsed : VideoVaeConfig{};
  config.tile_size = entry.value("tile", config.tile_size);
  config.tile_overlap_min = entry.value("overlap", config.tile_overlap_min);
  return config;
}

// The input of a case: a stored picture [H, W, 3] or the first frames of a stored video [T, H, W, 3], 8 bits.
struct Pixels {
  explicit Pixels(const nlohmann::json& source) : frames(source["frames"]) {
    const golden::Tensors file(in_vae(source["file"]));
    const auto shape = file.shape(source["key"]);
    const auto stored = file.i64(source["key"]);
    rgb.assign(stored.begin(), stored.end());
    height = static_cast<int>(shape[shape.size() - 3]);
    width = static_cast<int>(shape[shape.size() - 2]);
    rgb.resize(static_cast<std::size_t>(frames) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3);
  }
  [[nodiscard]] PictureView picture() const { return {width, height, rgb}; }
  [[nodiscard]] FrameSource video() const { return frames_in_memory(rgb, frames, height, width); }

  int frames, height = 0, width = 0;
  std::vector<std::uint8_t> rgb;
};

// Nothing for "image".
std::optional<FrameRule> rule_of(const std::string& mode) {
  if (mode == "image") return std::nullopt;
  if (mode == "video") return FrameRule::every_frame;
  if (mode == "reference_video") return FrameRule::reference;
  if (mode == "continuation") return FrameRule::continuation;
  ADD_FAILURE() << "unknown mode '" << mode << "'";
  return std::nullopt;
}

TokenGrid take(Result<TokenGrid> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().text());
  return result.ok() ? std::move(result).value() : TokenGrid{};
}

TokenGrid moments_of(const VideoEncoder& encoder, const std::string& mode, const Pixels& pixels) {
  const auto rule = rule_of(mode);
  return take(rule ? encoder.video_moments(pixels.video(), *rule) : encoder.image_moments(pixels.picture()));
}

// By the program's own entry points.
TokenGrid latents_of(const VideoEncoder& encoder, const std::string& mode, const Pixels& pixels, Posterior posterior) {
  const auto rule = rule_of(mode);
  return take(rule ? encoder.encode_video(pixels.video(), *rule, posterior) : encoder.encode_image(pixels.picture(), posterior));
}

TokenGrid quantity(const std::string& name, const VideoEncoder& encoder, const std::string& mode, const Pixels& pixels) {
  if (name == "latents_sampled") return latents_of(encoder, mode, pixels, Posterior::sampled);
  if (name == "latents_mean_path") return latents_of(encoder, mode, pixels, Posterior::mean);
  const TokenGrid moments = moments_of(encoder, mode, pixels);
  if (name == "moments") return moments;
  TokenGrid out = choose_latents(moments, Posterior::sampled, moments.tokens);
  if (name == "z_sampled_f16") return out;
  EXPECT_EQ(name, "noise_seed42") << "unknown quantity";
  out.values = posterior_noise(out.values.size());
  return out;
}

// Within the tolerance, but for the allowed share of values, which may be off by up to "tolerance_max".
void expect_case(const std::string& name, const nlohmann::json& expect, std::span<const float> actual, std::span<const float> expected) {
  const double allowed = expect.value("allowed_outliers", 0.0), tolerance = expect["tolerance_abs"];
  golden::expect_within(name, golden::max_abs_diff(actual, expected), allowed > 0 ? expect["tolerance_max"].get<double>() : tolerance);
  if (allowed <= 0 || actual.size() != expected.size()) return;
  std::size_t outliers = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!(std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])) <= tolerance)) ++outliers;
  golden::expect_within(fmt::format("{} share beyond {:g}", name, tolerance),
                        static_cast<double>(outliers) / static_cast<double>(actual.size()), allowed);
}

class GoldenVideoEncoder : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto opened = Device::open("CPU", GetParam() ? 2 : 1);  // plain graphs have thousands of small nodes, each a meeting of the threads
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    device_ = std::move(*opened);
    device_->set_fast_kernels(GetParam());
  }

  VideoEncoder load(const nlohmann::json& entry) {
    const auto part = WeightPart::open(golden::path(in_vae(entry["model"].get<std::string>() + ".safetensors")));
    EXPECT_TRUE(part.ok()) << part.error().text();
    auto encoder = VideoEncoder::load(*device_, **part, config_of(entry));
    EXPECT_TRUE(encoder.ok()) << encoder.error().text();
    return std::move(encoder).value();
  }

  std::string label(const std::string& name) const { return name + (GetParam() ? " (kernels)" : " (plain)"); }

  std::unique_ptr<Device> device_;
};

TEST_P(GoldenVideoEncoder, EveryEncodeCaseMatchesTheReference) {
  const auto cases = encode_cases();
  ASSERT_FALSE(cases.empty());
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry["name"]);
    const VideoEncoder encoder = load(entry);
    const Pixels pixels(entry["source"]);
    ASSERT_FALSE(entry["expect"].empty());
    for (const auto& expect : entry["expect"]) {
      const golden::Tensors file(in_vae(expect["file"]));
      const std::string key = expect["key"];
      const TokenGrid actual = quantity(expect["quantity"], encoder, entry["mode"], pixels);
      EXPECT_EQ(file.shape(key), (std::vector<std::int64_t>{1, actual.planes, actual.tokens, actual.height, actual.width})) << key;
      expect_case(label(key), expect, actual.values, file.f32(key));
    }
  }
}

// --- intermediates ----------------------------------------------------------------------------------------------------------------

// One intermediate of the first tile of a clip: frames of all steps, each [height, width, channels].
struct Stage {
  std::size_t channels = 0, height = 0, width = 0;
  std::vector<float> values;
  [[nodiscard]] std::size_t frame_values() const { return channels * height * width; }
  [[nodiscard]] std::size_t frames() const { return values.size() / frame_values(); }
};
using Stages = std::map<std::string, Stage>;

Stages record_first_tile(Device& device, const VideoEncoder& encoder, const std::string& mode, const Pixels& pixels) {
  const std::string prefix = "video_vae.encoder.clip0.tile0_0.step";
  Stages stages;
  device.set_observer([&](const std::string& name, std::span<const std::int64_t> shape, std::span<const float> values) {
    if (!name.starts_with(prefix)) return;
    Stage& stage = stages[name.substr(name.find('.', prefix.size()) + 1)];
    stage.channels = static_cast<std::size_t>(shape[0]);
    stage.width = static_cast<std::size_t>(shape[1]);
    stage.height = static_cast<std::size_t>(shape[2]);
    stage.values.insert(stage.values.end(), values.begin(), values.end());
  });
  moments_of(encoder, mode, pixels);
  device.set_observer({});
  return stages;
}

// The channels first, first+1, ... and the leading frames of a stage as the golden files store them, [channels, frames, height, width].
std::vector<float> channels_first(const Stage& stage, std::size_t first, std::size_t channels, std::size_t frames) {
  std::vector<float> out;
  for (std::size_t c = first; c < first + channels; ++c)
    for (std::size_t t = 0; t < frames; ++t)
      for (std::size_t i = 0; i < stage.height * stage.width; ++i)
        out.push_back(stage.values[t * stage.frame_values() + i * stage.channels + c]);
  return out;
}

// "down0.downsample.ch0_3" -> name "down0.downsample", first channel 0. How many channels there are, the tensor's shape says.
std::pair<std::string, std::size_t> split_channels(const std::string& key) {
  const std::size_t at = key.rfind(".ch");
  if (at == std::string::npos) return {key, 0};
  return {key.substr(0, at), std::stoul(key.substr(at + 3))};
}

// The runs that the stage file records, "enc.<run>.<stage>", with the stage names of each.
std::map<std::string, std::vector<std::string>> recorded_runs(const golden::Tensors& file) {
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& key : file.names()) {
    if (!key.starts_with("enc.")) continue;
    const std::size_t dot = key.find('.', 4);
    out[key.substr(4, dot - 4)].push_back(key.substr(dot + 1));
  }
  return out;
}

// Whether a case's first tile is the recorded run: the same first frame and as many tokens.
bool is_run(const Stages& stages, const golden::Tensors& file, const std::string& run) {
  const auto tokens = static_cast<std::size_t>(file.shape("enc." + run + ".quant_conv")[2]);
  const std::vector<float> recorded = file.f32("enc." + run + ".input_norm");
  const Stage& input = stages.at("input_norm");
  if (stages.at("quant_conv").frames() != tokens) return false;
  const auto recorded_frames = static_cast<std::size_t>(file.shape("enc." + run + ".input_norm")[2]);
  if (input.frames() < recorded_frames || recorded.size() != recorded_frames * input.frame_values()) return false;
  return golden::max_abs_diff(channels_first(input, 0, input.channels, recorded_frames), recorded) < kStageTolerance;
}

TEST_P(GoldenVideoEncoder, EveryStageMatchesTheReference) {
  const golden::Tensors file(in_vae("video_stages.safetensors"));
  const auto runs = recorded_runs(file);
  if (runs.empty()) GTEST_SKIP() << "this tree holds no intermediates of the encoder (the repository's own choice may leave them out)";
  const auto cases = encode_cases();
  for (const auto& [run, names] : runs) {
    bool found = false;
    for (const auto& entry : cases) {
      if (found) break;
      const VideoEncoder encoder = load(entry);
      const Stages stages = record_first_tile(*device_, encoder, entry["mode"], Pixels(entry["source"]));
      if (!is_run(stages, file, run)) continue;
      found = true;
      for (const std::string& name : names) {
        const std::string key = "enc." + run + "." + name;
        const auto shape = file.shape(key);
        const auto [stage_name, first_channel] = split_channels(name);
        const auto stage = stages.find(stage_name);
        ASSERT_NE(stage, stages.end()) << key << " is no intermediate of the encoder";
        ASSERT_GE(stage->second.frames(), static_cast<std::size_t>(shape[2])) << key;
        ASSERT_GE(stage->second.channels, first_channel + static_cast<std::size_t>(shape[1])) << key;
        const auto actual =
            channels_first(stage->second, first_channel, static_cast<std::size_t>(shape[1]), static_cast<std::size_t>(shape[2]));
        const auto expected = file.f32(key);
        golden::expect_within(label(key), golden::max_abs_diff(actual, expected), kStageTolerance);
        golden::expect_within(label(key) + " relative", golden::rel_l2(actual, expected), kStageRelativeTolerance);
      }
    }
    EXPECT_TRUE(found) << "no video_encode case has the input of enc." << run;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenVideoEncoder, ::testing::Values(true, false),
                         [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

// "rng.randn_seed<seed>_n<count>"
TEST(GoldenVideoNoise, TorchNumbersOfASeed) {
  const golden::Tensors file(in_vae("video_stages.safetensors"));
  int checked = 0;
  for (const std::string& key : file.names()) {
    const std::string prefix = "rng.randn_seed";
    if (!key.starts_with(prefix)) continue;
    std::vector<float> values(static_cast<std::size_t>(file.shape(key).front()));
    TorchGenerator(std::stoull(key.substr(prefix.size()))).normal(values);
    golden::expect_within(key, golden::max_abs_diff(values, file.f32(key)), kNoiseTolerance);
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace tritium::video_vae
