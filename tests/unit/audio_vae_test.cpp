// Configuration of the audio VAE in both layouts, and the audio decoder's behaviour on the demonstration model.
#include "model/audio_vae/decoder.h"

#include "base/files.h"
#include "weights/part.h"

#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tritium::audio_vae {
namespace {

using nlohmann::json;

std::filesystem::path demo_folder() { return std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA/audio_vae"; }

// A complete configuration in the layout where one file holds every key.
json complete_config() {
  return {{"encoder_dim", 4},
          {"encoder_rates", {2, 5}},
          {"latent_dim", 16},
          {"latent_channels", 3},
          {"decoder_dim", 8},
          {"decoder_rates", {5, 2}},
          {"decoder_kernel_sizes", {7, 6}},
          {"num_attention_heads", 2},
          {"resblock_kernel_sizes", {3, 5}},
          {"resblock_dilation_sizes", {{1, 2}, {1, 3, 9}}},
          {"sampling_rate", 16000},
          {"latents_mean", {0.5, -1, 0}},
          {"latents_std", {1, 2, 0.25}}};
}

// What the official files hold, split over two documents.
json official_config() {
  return {{"latent_channels", 2}, {"output_channel", 2}, {"sample_rate", 32000}, {"latents_mean", {0, 0}}, {"latents_std", {1, 1}}};
}
json official_metadata() {
  return {{"metadata",
           {{"kwargs",
             {{"decoder_dim", 64},
              {"decoder_rates", {5, 2, 8, 4}},
              {"encoder_rates", {8, 5, 8}},
              {"sample_rate", 32000},
              {"vae_latent_channels", 2},
              {"decoder_type", "bigvgan"},
              {"attn_proj", true}}}}}};
}

TEST(AudioVaeConfig, EveryKeyOfOneFileIsRead) {
  const auto config = AudioVaeConfig::parse(complete_config().dump());
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->encoder_dim, 4);
  EXPECT_EQ(config->encoder_rates, (std::vector{2, 5}));
  EXPECT_EQ(config->latent_dim, 16);
  EXPECT_EQ(config->latent_channels, 3);
  EXPECT_EQ(config->attention_heads, 2);
  EXPECT_EQ(config->decoder_dim, 8);
  EXPECT_EQ(config->decoder_rates, (std::vector{5, 2}));
  EXPECT_EQ(config->decoder_kernel_sizes, (std::vector{7, 6}));
  EXPECT_EQ(config->resblock_kernel_sizes, (std::vector{3, 5}));
  EXPECT_EQ(config->resblock_dilation_sizes, (std::vector<std::vector<int>>{{1, 2}, {1, 3, 9}}));
  EXPECT_EQ(config->sampling_rate, 16000);
  EXPECT_EQ(config->latents_mean, (std::vector<float>{0.5f, -1.0f, 0.0f}));
  EXPECT_EQ(config->latents_std, (std::vector<float>{1.0f, 2.0f, 0.25f}));
  EXPECT_EQ(config->samples_per_latent(), 10);
  EXPECT_EQ(config->decoder_channels(0), 8);
  EXPECT_EQ(config->decoder_channels(2), 2);
}

TEST(AudioVaeConfig, OfficialFilesAreCompletedWithTheReleasedModel) {
  const auto config = AudioVaeConfig::parse(official_config().dump(), official_metadata().dump());
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->decoder_kernel_sizes, (std::vector{9, 4, 16, 8}));
  EXPECT_EQ(config->resblock_kernel_sizes, (std::vector{3, 7, 11}));
  EXPECT_EQ(config->resblock_dilation_sizes, (std::vector<std::vector<int>>(3, {1, 3, 5})));
  EXPECT_EQ(config->encoder_dim, 64);
  EXPECT_EQ(config->latent_dim, 2048);
  EXPECT_EQ(config->attention_heads, 8);
  EXPECT_EQ(config->sampling_rate, 32000);
}

TEST(AudioVaeConfig, DemoFolderIsRead) {
  const auto config = AudioVaeConfig::read(demo_folder());
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->decoder_kernel_sizes, (std::vector{9, 9, 4, 4, 4, 4, 4}));
  EXPECT_EQ(config->samples_per_latent(), 800);
  EXPECT_FALSE(AudioVaeConfig::read(demo_folder() / "missing").ok());
}

struct BadValue {
  const char* key;
  json value;  // null = remove the key
};

TEST(AudioVaeConfig, BadValuesAreRefusedByName) {
  const BadValue cases[] = {
      {"decoder_rates", nullptr},
      {"decoder_rates", json::array()},
      {"decoder_rates", {5, 0}},
      {"decoder_rates", {5, 2.5}},
      {"decoder_rates", "5,2"},
      {"decoder_rates", std::vector<int>(17, 1)},
      {"decoder_dim", 0},
      {"decoder_dim", 6},  // not divisible by 2 for each stage
      {"decoder_dim", 1 << 20},
      {"decoder_kernel_sizes", {7}},
      {"decoder_kernel_sizes", {8, 6}},  // odd padding
      {"decoder_kernel_sizes", {3, 6}},  // shorter than the rate
      {"resblock_kernel_sizes", {3, 4}},
      {"resblock_dilation_sizes", {{1, 2}}},
      {"resblock_dilation_sizes", {{1, 2}, 3}},
      {"encoder_rates", {2, 4}},  // another number of samples per latent
      {"num_attention_heads", 3},
      {"latents_mean", {0.5, -1}},
      {"latents_mean", {0.5, -1, nullptr}},
      {"latents_std", {1, 2, 0}},
      {"latents_std", {1, 2, -1}},
      {"latent_channels", -3},
      {"sampling_rate", 0},
      {"output_channel", 1},
      {"decoder_type", "vocos"},
      {"attn_proj", false},
  };
  for (const BadValue& each : cases) {
    json document = complete_config();
    if (each.value.is_null())
      document.erase(each.key);
    else
      document[each.key] = each.value;
    const auto config = AudioVaeConfig::parse(document.dump());
    ASSERT_FALSE(config.ok()) << each.key << " = " << each.value.dump();
    EXPECT_EQ(config.error().code, ErrorCode::model);
    EXPECT_EQ(config.error().field, each.key) << config.error().text();
  }
}

TEST(AudioVaeConfig, ContradictionsAndBrokenFilesAreRefused) {
  json config = official_config();
  config["decoder_dim"] = 128;
  EXPECT_EQ(AudioVaeConfig::parse(config.dump(), official_metadata().dump()).error().field, "decoder_dim");
  config = official_config();
  config["latent_channels"] = 3;
  EXPECT_EQ(AudioVaeConfig::parse(config.dump(), official_metadata().dump()).error().field, "latent_channels");
  for (const char* text : {"", "[]", "{", "null", "\xff"}) EXPECT_FALSE(AudioVaeConfig::parse(text).ok()) << text;
  for (const char* text : {"[]", "{", "{}", R"({"metadata": {"kwargs": 3}})"})
    EXPECT_FALSE(AudioVaeConfig::parse(official_config().dump(), text).ok()) << text;
}

class AudioDecoderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = WeightPart::open(demo_folder());
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    part = std::move(opened).value();
    config = AudioVaeConfig::read(demo_folder()).value();
    device = Device::open("", 1).value();
  }
  [[nodiscard]] AudioDecoder load() const { return AudioDecoder::load(*device, *part, config).value(); }
  [[nodiscard]] std::vector<float> latents(std::int64_t length, float value = 0.3f) const {
    std::vector<float> out(static_cast<std::size_t>(kChannels * config.latent_channels * length), value);
    for (std::size_t i = 0; i < out.size(); i += 3) out[i] = -value;
    return out;
  }

  std::shared_ptr<const WeightPart> part;
  AudioVaeConfig config;
  std::unique_ptr<Device> device;
};

TEST_F(AudioDecoderTest, CheckGivesTheBytesAndNamesEveryMismatch) {
  const auto bytes = AudioDecoder::check(*part, config);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text();
  EXPECT_GT(*bytes, 1000000u);
  AudioVaeConfig wrong = config;
  wrong.decoder_kernel_sizes[0] = 7;
  const auto mismatch = AudioDecoder::check(*part, wrong);
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().code, ErrorCode::model);
  EXPECT_NE(mismatch.error().message.find("decoder.ups.0.0.weight_v"), std::string::npos) << mismatch.error().text();
  wrong = config;
  wrong.resblock_kernel_sizes.push_back(3);
  wrong.resblock_dilation_sizes.push_back({1});
  EXPECT_FALSE(AudioDecoder::load(*device, *part, wrong).ok());
}

TEST_F(AudioDecoderTest, LengthIsExactAndSamplesAreClamped) {
  const AudioDecoder decoder = load();
  for (const std::int64_t length : {1, 2, 5}) {
    const auto sound = decoder.decode({latents(length, 3.0f), length});
    ASSERT_TRUE(sound.ok()) << sound.error().text();
    EXPECT_EQ(sound->sampling_rate, config.sampling_rate);
    for (const auto& channel : sound->channels) {
      EXPECT_EQ(channel.size(), static_cast<std::size_t>(length * config.samples_per_latent()));
      for (const float v : channel) EXPECT_LE(std::abs(v), 1.0f);
    }
  }
}

TEST_F(AudioDecoderTest, StereoChannelsAreIndependent) {
  const AudioDecoder decoder = load();
  std::vector<float> both = latents(3), other = both;
  for (std::size_t i = both.size() / 2; i < both.size(); ++i) other[i] = 0.9f;
  const auto a = decoder.decode({both, 3}), b = decoder.decode({other, 3});
  EXPECT_EQ(a->channels[0], a->channels[1]);
  EXPECT_EQ(a->channels[0], b->channels[0]);
  EXPECT_NE(a->channels[1], b->channels[1]);
}

TEST_F(AudioDecoderTest, WrongSizesAndNonFiniteLatentsAreRefused) {
  const AudioDecoder decoder = load();
  EXPECT_EQ(decoder.decode({latents(4), 5}).error().field, "latents");
  EXPECT_EQ(decoder.decode({{}, 0}).error().field, "latents");
  EXPECT_EQ(decoder.decode({latents(4), -4}).error().field, "latents");
  std::vector<float> bad = latents(4);
  bad[17] = std::nanf("");
  EXPECT_EQ(decoder.decode({bad, 4}).error().field, "latents");
}

TEST_F(AudioDecoderTest, OverflowIsRejectedAndNamesChannelAndStage) {
  const AudioDecoder decoder = load();
  std::vector<float> huge = latents(4);
  for (std::size_t i = huge.size() / 2; i < huge.size(); ++i) huge[i] = 1e38f;
  const auto result = decoder.decode({huge, 4});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::rejected);
  EXPECT_NE(result.error().message.find("audio_vae.right.stage0"), std::string::npos) << result.error().text();
}

TEST_F(AudioDecoderTest, ProgressCountsStagesAndCancelStopsBetweenThem) {
  const AudioDecoder decoder = load();
  std::vector<int> seen;
  int total = 0;
  ASSERT_TRUE(decoder
                  .decode({latents(2), 2}, nullptr,
                          [&](int done, int all) {
                            seen.push_back(done);
                            total = all;
                          })
                  .ok());
  EXPECT_EQ(total, kChannels * (static_cast<int>(config.decoder_rates.size()) + 2));
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(total));
  for (int i = 0; i < total; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i + 1);

  CancelToken cancel;
  const auto stopped = decoder.decode({latents(2), 2}, &cancel, [&](int done, int) {
    EXPECT_LE(done, 3);
    if (done == 3) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::interrupted);
  EXPECT_EQ(AudioDecoder::load(*device, *part, config, &cancel).error().code, ErrorCode::interrupted);
}

TEST_F(AudioDecoderTest, LoadingReportsProgressUpToTheTotal) {
  std::uint64_t last = 0, total = 0;
  ASSERT_TRUE(AudioDecoder::load(*device, *part, config, nullptr, [&](std::uint64_t done, std::uint64_t all) {
                EXPECT_GT(done, last);
                last = done;
                total = all;
              }).ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, AudioDecoder::check(*part, config).value());
}

TEST_F(AudioDecoderTest, WeightNormOfAKnownMatrix) {
  const std::vector<float> g{2.0f, 10.0f}, v{3.0f, 4.0f, 0.0f, -5.0f};
  const std::vector<float> folded = fold_weight_norm(g, v);
  const float expected[] = {1.2f, 1.6f, 0.0f, -10.0f};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(folded[i], expected[i], 1e-6f);
}

}  // namespace
}  // namespace tritium::audio_vae
