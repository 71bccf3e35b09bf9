// The audio encoder's behaviour on the demonstration model.
#include "model/audio_vae/encoder.h"

#include "model/audio_vae/decoder.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace tritium::audio_vae {
namespace {

std::filesystem::path demo_folder() { return std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA/audio_vae"; }

std::vector<float> tone(std::size_t samples, double hertz = 400, double phase = 0) {
  std::vector<float> out(samples);
  for (std::size_t i = 0; i < samples; ++i)
    out[i] = static_cast<float>(0.4 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / 32000 + phase));
  return out;
}

class AudioEncoderTest : public testing::Test {
 protected:
  [[nodiscard]] AudioEncoder load() const { return AudioEncoder::load(*device, *part, config).value(); }
  [[nodiscard]] std::size_t channel_values(const EncodedAudio& encoded) const {
    return static_cast<std::size_t>(config.latent_channels * encoded.length);
  }

  std::shared_ptr<const WeightPart> part = WeightPart::open(demo_folder()).value();
  AudioVaeConfig config = AudioVaeConfig::read(demo_folder()).value();
  std::unique_ptr<Device> device = Device::open("", 1).value();
};

TEST_F(AudioEncoderTest, CheckGivesTheBytesAndNamesEveryMismatch) {
  const auto bytes = AudioEncoder::check(*part, config);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text();
  std::uint64_t loaded = 0;
  ASSERT_TRUE(AudioEncoder::load(*device, *part, config, nullptr, [&](std::uint64_t done, std::uint64_t) { loaded = done; }).ok());
  EXPECT_EQ(loaded, *bytes);
  AudioVaeConfig wrong = config;
  wrong.encoder_dim *= 2;
  const auto mismatch = AudioEncoder::check(*part, wrong);
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().code, ErrorCode::model);
  EXPECT_NE(mismatch.error().message.find("encoder.block.0.weight_v"), std::string::npos) << mismatch.error().text();
  wrong = config;
  wrong.encoder_rates.insert(wrong.encoder_rates.begin(), 1);
  EXPECT_EQ(AudioEncoder::check(*part, wrong).error().field, "encoder_rates");
  EXPECT_EQ(AudioEncoder::load(*device, *part, wrong).error().field, "encoder_rates");
}

TEST_F(AudioEncoderTest, SoundIsContinuedWithZerosToWholeLatents) {
  const AudioEncoder encoder = load();
  const auto ratio = static_cast<std::size_t>(config.samples_per_latent());
  for (const std::size_t samples : {std::size_t{1}, ratio - 1, ratio, ratio + 1, 5 * ratio}) {
    const std::vector<float> sound = tone(samples);
    const auto encoded = encoder.encode(sound, sound);
    ASSERT_TRUE(encoded.ok()) << encoded.error().text();
    EXPECT_EQ(encoded->length, static_cast<std::int64_t>((samples + ratio - 1) / ratio));
    EXPECT_EQ(encoded->values.size(), kChannels * channel_values(*encoded));
    std::vector<float> padded = sound;
    padded.resize(static_cast<std::size_t>(encoded->length) * ratio, 0.0f);
    EXPECT_EQ(encoder.encode(padded, padded)->values, encoded->values);
  }
}

TEST_F(AudioEncoderTest, ChannelsAreIndependentAndMonoIsTheSameTwice) {
  const AudioEncoder encoder = load();
  const std::vector<float> a = tone(8000), b = tone(8000, 750, 1);
  const auto half = [&](const EncodedAudio& encoded, std::size_t channel) {
    const auto first = encoded.values.begin() + static_cast<std::ptrdiff_t>(channel * channel_values(encoded));
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(channel_values(encoded)));
  };
  const EncodedAudio stereo = encoder.encode(a, b).value(), swapped = encoder.encode(b, a).value(), mono = encoder.encode(a, a).value();
  EXPECT_EQ(half(stereo, 0), half(swapped, 1));
  EXPECT_EQ(half(stereo, 1), half(swapped, 0));
  EXPECT_NE(half(stereo, 0), half(stereo, 1));
  EXPECT_EQ(half(mono, 0), half(stereo, 0));
  EXPECT_EQ(half(mono, 0), half(mono, 1));
}

TEST_F(AudioEncoderTest, UnusableSoundIsRefused) {
  const AudioEncoder encoder = load();
  std::vector<float> sound = tone(1000);
  for (const auto& refused : {encoder.encode({}, {}), encoder.encode(sound, tone(999))}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_EQ(refused.error().field, "audio");
  }
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    sound[500] = bad;
    EXPECT_EQ(encoder.encode(tone(1000), sound).error().code, ErrorCode::usage);
  }
  std::fill(sound.begin() + 500, sound.end(), 3e38f);  // finite, but not for long
  const auto overflow = encoder.encode(tone(1000), sound);
  ASSERT_FALSE(overflow.ok());
  EXPECT_EQ(overflow.error().code, ErrorCode::rejected);
  EXPECT_NE(overflow.error().message.find("audio_vae.encoder.right."), std::string::npos) << overflow.error().text();
}

TEST_F(AudioEncoderTest, ProgressCountsStagesAndCancelStopsBetweenThem) {
  const AudioEncoder encoder = load();
  const std::vector<float> left = tone(1600), right = tone(1600, 700);
  const int stages = static_cast<int>(config.encoder_rates.size()) + 3;
  for (const bool mono : {false, true}) {
    std::vector<int> seen;
    int total = 0;
    ASSERT_TRUE(encoder
                    .encode(left, mono ? left : right, nullptr,
                            [&](int done, int all) {
                              seen.push_back(done);
                              total = all;
                            })
                    .ok());
    EXPECT_EQ(total, mono ? stages : 2 * stages);
    std::vector<int> expected(static_cast<std::size_t>(total));
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(seen, expected);
  }
  CancelToken cancel;
  const auto stopped = encoder.encode(left, right, &cancel, [&](int done, int) {
    EXPECT_LE(done, 3);
    if (done == 3) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::interrupted);
}

TEST_F(AudioEncoderTest, ThreadsDoNotChangeABit) {
  const std::vector<float> left = tone(24000), right = tone(24000, 633, 2);
  for (const bool fast : {true, false}) {
    std::vector<float> one;
    for (const int threads : {1, 2}) {
      device = Device::open("", threads).value();
      device->set_fast_kernels(fast);
      const auto encoded = load().encode(left, right);
      ASSERT_TRUE(encoded.ok()) << encoded.error().text();
      if (one.empty()) one = encoded->values;
      EXPECT_EQ(encoded->values, one) << threads << (fast ? " fast" : " plain");
    }
  }
}

// The demonstration model's encoder is rough, see its model card.
TEST_F(AudioEncoderTest, EncodedSoundComesBack) {
  const AudioEncoder encoder = load();
  const AudioDecoder decoder = AudioDecoder::load(*device, *part, config).value();
  const auto reference = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/eval/reference";
  int clips = 0;
  for (const auto& entry : std::filesystem::directory_iterator(reference)) {
    if (entry.path().extension() != ".safetensors") continue;
    const Checkpoint file = Checkpoint::open(entry.path()).value();
    const std::vector<float> wave = file.read_f32("waveform").value();
    const std::span left = std::span(wave).first(wave.size() / 2), right = std::span(wave).last(wave.size() / 2);
    const EncodedAudio encoded = encoder.encode(left, right).value();
    const StereoSound back = decoder.decode({encoded.values, encoded.length}).value();
    double signal = 0, difference = 0;
    for (std::size_t i = 0; i < wave.size(); ++i) {
      const std::vector<float>& channel = back.channels[i / left.size()];
      signal += std::pow(static_cast<double>(wave[i]), 2);
      difference += std::pow(static_cast<double>(wave[i]) - static_cast<double>(channel[i % left.size()]), 2);
    }
    const double snr = 10 * std::log10(signal / difference);
    std::printf("recorded clip %s there and back: SNR %.1f dB\n", entry.path().stem().c_str(), snr);
    EXPECT_GE(snr, 5.0) << entry.path();
    ++clips;
  }
  EXPECT_GT(clips, 0);
}

TEST(AudioPooling, HeadsAreAveragedAndFeaturesPooledBothWays) {
  // 2 heads of 6 features to 3: pairs.
  const std::vector<float> down = pooling_matrix(2, 6, 3);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t f = 0; f < 12; ++f) EXPECT_FLOAT_EQ(down[i * 12 + f], f % 6 / 2 == i ? 0.25f : 0.0f);
  // 2 features to 4: each twice; 3 to 2: groups that overlap.
  const std::vector<float> up = pooling_matrix(1, 2, 4);
  EXPECT_EQ(up, (std::vector<float>{1, 0, 1, 0, 0, 1, 0, 1}));
  const std::vector<float> overlapping = pooling_matrix(1, 3, 2);
  EXPECT_EQ(overlapping, (std::vector<float>{0.5f, 0.5f, 0, 0, 0.5f, 0.5f}));
}

}  // namespace
}  // namespace tritium::audio_vae
