// The video VAE encoder without golden data: schedules, the posterior, and the demonstration model's own encoder.
#include "model/video_vae/encoder.h"

#include "base/files.h"
#include "model/video_vae/decoder.h"
#include "model/video_vae/pixels.h"
#include "weights/dtype.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace tritium::video_vae {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo";
const std::filesystem::path kDemoWeights = kDemo / "FL2VA/video_vae/source/model.safetensors";
constexpr TemporalGeometry kReleased{17, 3, 4};

VideoVaeConfig demo_config() {
  const auto text = [](const std::string& relative) { return read_file(kDemo / "FL2VA/video_vae" / relative).value(); };
  return VideoVaeConfig::parse(text("config.json"), text("source/config.json")).value();
}

// --- schedules --------------------------------------------------------------------------------------------------------------------

TEST(VideoEncodeSchedule, ReferenceVideosAreCutToWholeClipsAndALookAhead) {
  for (int frames = 22; frames < 400; ++frames) {
    const auto schedule = schedule_encode(kReleased, frames, FrameRule::reference);
    ASSERT_TRUE(schedule.ok()) << frames;
    const int clips = (frames - 5) / 17;
    EXPECT_EQ(schedule->used_frames, 17 * clips + 5);
    EXPECT_EQ(schedule->tokens, 5 * clips + 2);
    EXPECT_EQ(schedule->drawn_tokens, schedule->tokens);
    ASSERT_EQ(schedule->clips.size(), static_cast<std::size_t>(clips + 1));
    EXPECT_EQ(schedule->clips.front().tokens, 5);
    EXPECT_EQ(schedule->clips.back().tokens, 2);
    EXPECT_EQ(schedule->clips.back().first_frame, 17 * clips);
    EXPECT_EQ(frames_for_tokens(kReleased, schedule->clips.back().tokens), 5);
  }
}

TEST(VideoEncodeSchedule, TooFewFramesAreRefusedWithTheLeastNumber) {
  for (const int frames : {-1, 0, 1, 5, 21}) {
    const auto refused = schedule_encode(kReleased, frames, FrameRule::reference);
    ASSERT_FALSE(refused.ok()) << frames;
    EXPECT_EQ(refused.error().code, ErrorCode::usage);
    EXPECT_EQ(refused.error().field, "frames");
    EXPECT_NE(refused.error().hint.find("22"), std::string::npos);
  }
  EXPECT_FALSE(schedule_encode(kReleased, 0, FrameRule::every_frame).ok());
  EXPECT_FALSE(schedule_encode(kReleased, 0, FrameRule::continuation).ok());
}

TEST(VideoEncodeSchedule, EveryFrameCountIsTakenWithoutCutting) {
  for (const auto& [frames, tokens] :
       {std::pair{1, 2}, std::pair{5, 2}, std::pair{17, 2}, std::pair{18, 7}, std::pair{34, 7}, std::pair{35, 12}}) {
    const auto schedule = schedule_encode(kReleased, frames, FrameRule::every_frame);
    ASSERT_TRUE(schedule.ok());
    EXPECT_EQ(schedule->tokens, tokens) << frames;
    EXPECT_EQ(schedule->used_frames, frames);
  }
}

// Black frames in front until the last token is whole; none is dropped, but noise is drawn for whole clips.
TEST(VideoEncodeSchedule, ContinuedVideos) {
  struct Row {
    int frames, black, tokens, drawn;
  };
  for (const Row& row : {Row{1, 0, 1, 5}, Row{2, 3, 2, 5}, Row{13, 0, 4, 5}, Row{14, 3, 5, 5}, Row{17, 0, 5, 5}, Row{18, 0, 6, 10},
                         Row{19, 3, 7, 10}, Row{30, 0, 9, 10}, Row{33, 1, 10, 10}}) {
    const auto schedule = schedule_encode(kReleased, row.frames, FrameRule::continuation);
    ASSERT_TRUE(schedule.ok());
    EXPECT_EQ(-schedule->clips.front().first_frame, row.black) << row.frames;
    EXPECT_EQ(schedule->tokens, row.tokens) << row.frames;
    EXPECT_EQ(schedule->drawn_tokens, row.drawn) << row.frames;
  }
}

// --- posterior --------------------------------------------------------------------------------------------------------------------

TEST(VideoPosterior, SamplesAreRoundedToFloat16AndVariancesBounded) {
  TokenGrid moments{4, 3, 2, 4, {}};  // two channels: enough values for the noise of blocks
  const std::size_t count = 2 * moments.plane_values();
  moments.values.assign(2 * count, 0.0f);
  for (std::size_t i = 0; i < count; ++i) {
    moments.values[i] = 0.1f * static_cast<float>(i);
    moments.values[count + i] = i % 2 == 0 ? -1000.0f : 0.0f;  // a variance of e^-30, and of 1
  }
  const TokenGrid sample = choose_latents(moments, Posterior::sampled, moments.tokens),
                  mean = choose_latents(moments, Posterior::mean, moments.tokens);
  const std::vector<float> noise = posterior_noise(count);
  ASSERT_EQ(sample.planes, 2);
  ASSERT_EQ(sample.values.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(mean.values[i], moments.values[i]);
    EXPECT_EQ(sample.values[i], f16_to_f32(f32_to_f16(sample.values[i])));
    EXPECT_NEAR(sample.values[i], moments.values[i] + (i % 2 == 0 ? 0.0f : noise[i]), 4e-3f);
  }
}

TEST(VideoPosterior, NoiseOfMoreTokensIsLaidOutByChannel) {
  TokenGrid moments{2 * 3, 2, 2, 2, {}};
  moments.values.assign(static_cast<std::size_t>(moments.planes) * moments.plane_values(), 0.0f);
  const std::vector<float> noise = posterior_noise(3 * 5 * 4);
  const TokenGrid sample = choose_latents(moments, Posterior::sampled, 5);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(sample.values[c * 8 + i], f16_to_f32(f32_to_f16(noise[c * 20 + i])));
}

// --- the demonstration model ------------------------------------------------------------------------------------------------------

std::unique_ptr<Device> open(int threads = 1, bool fast = true) {
  auto device = Device::open("", threads).value();
  device->set_fast_kernels(fast);
  return device;
}

VideoEncoder load(Device& device, const VideoVaeConfig& config = demo_config()) {
  const auto part = WeightPart::open(kDemoWeights).value();
  return VideoEncoder::load(device, *part, config).value();
}

// A disc that moves over a background with a slope, [frames, height, width, 3].
std::vector<std::uint8_t> drawn(int frames, int height, int width) {
  std::vector<std::uint8_t> rgb;
  for (int t = 0; t < frames; ++t)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const double cx = width * (0.3 + 0.4 * t / std::max(1, frames - 1)),
                     inside = std::hypot(x - cx, y - 0.5 * height) < 0.22 * height ? 1 : 0;
        const double back[] = {30.0 + 20.0 * y / height, 60.0, 180.0}, front[] = {215.0, 40.0, 35.0};
        for (int c = 0; c < 3; ++c) rgb.push_back(static_cast<std::uint8_t>(back[c] + inside * (front[c] - back[c])));
      }
  return rgb;
}

std::vector<std::uint8_t> noisy(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::uint8_t> out(count);
  for (auto& v : out) v = static_cast<std::uint8_t>(engine() >> 24);
  return out;
}

TokenGrid image_of(const VideoEncoder& encoder, const std::vector<std::uint8_t>& rgb, int height, int width) {
  return encoder.image_moments({width, height, rgb}).value();
}

// Of the first frames.
TokenGrid video_of(const VideoEncoder& encoder, std::span<const std::uint8_t> rgb, int frames, int height, int width,
                   FrameRule rule = FrameRule::every_frame) {
  const std::size_t values = static_cast<std::size_t>(frames) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * 3;
  return encoder.video_moments(frames_in_memory(rgb.first(values), frames, height, width), rule).value();
}

// Largest difference over the tokens first_a.. of a and first_b.. of b.
double token_difference(const TokenGrid& a, int first_a, const TokenGrid& b, int first_b, int tokens) {
  const std::size_t positions = static_cast<std::size_t>(a.height) * static_cast<std::size_t>(a.width),
                    count = static_cast<std::size_t>(tokens) * positions;
  double worst = 0;
  for (std::size_t p = 0; p < static_cast<std::size_t>(a.planes); ++p)
    for (std::size_t i = 0; i < count; ++i)
      worst = std::max(worst,
                       std::abs(static_cast<double>(a.values[p * a.plane_values() + static_cast<std::size_t>(first_a) * positions + i]) -
                                static_cast<double>(b.values[p * b.plane_values() + static_cast<std::size_t>(first_b) * positions + i])));
  return worst;
}

TEST(VideoEncoderDemo, TokensOfAClipDependOnEarlierFramesOnly) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const auto rgb = noisy(39u * 48 * 32 * 3, 1);
  const TokenGrid whole = video_of(encoder, rgb, 39, 48, 32), short_one = video_of(encoder, rgb, 22, 48, 32),
                  five = video_of(encoder, rgb, 5, 48, 32);
  EXPECT_EQ(whole.tokens, 12);
  EXPECT_EQ(token_difference(whole, 0, short_one, 0, 7), 0);
  EXPECT_EQ(token_difference(whole, 0, five, 0, 2), 0);
  // A clip begins anew: its first token is that of its first frame as a picture.
  for (const int clip : {0, 1, 2}) {
    const auto first = rgb.begin() + std::ptrdiff_t{clip} * 17 * 48 * 32 * 3;
    EXPECT_LE(token_difference(whole, 5 * clip, image_of(encoder, {first, first + 48 * 32 * 3}, 48, 32), 0, 1), 1e-5) << clip;
  }
}

TEST(VideoEncoderDemo, TheLastFrameIsRepeatedAndBlackFramesComeFirst) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const std::size_t frame = 32u * 32 * 3;
  auto rgb = noisy(3 * frame, 2), padded = rgb, continued = std::vector<std::uint8_t>(2 * frame, 0);
  for (int i = 0; i < 2; ++i) padded.insert(padded.end(), rgb.end() - static_cast<std::ptrdiff_t>(frame), rgb.end());
  continued.insert(continued.end(), rgb.begin(), rgb.end());
  const TokenGrid three = video_of(encoder, rgb, 3, 32, 32);
  EXPECT_EQ(token_difference(three, 0, video_of(encoder, padded, 5, 32, 32), 0, 2), 0);
  const TokenGrid black = video_of(encoder, rgb, 3, 32, 32, FrameRule::continuation);
  EXPECT_EQ(black.tokens, 2);
  EXPECT_EQ(token_difference(black, 0, video_of(encoder, continued, 5, 32, 32), 0, 2), 0);
}

TEST(VideoEncoderDemo, PicturesAreCroppedToTheTopLeft) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const auto rgb = noisy(47u * 63 * 3, 3);
  std::vector<std::uint8_t> cropped;
  for (int y = 0; y < 32; ++y)
    cropped.insert(cropped.end(), rgb.begin() + std::ptrdiff_t{y} * 63 * 3, rgb.begin() + std::ptrdiff_t{y} * 63 * 3 + 48 * 3);
  const TokenGrid all = image_of(encoder, rgb, 47, 63), part = image_of(encoder, cropped, 32, 48);
  EXPECT_EQ(all.height, 2);
  EXPECT_EQ(all.width, 3);
  EXPECT_EQ(all.values, part.values);
}

TEST(VideoEncoderDemo, SmallPicturesAndWrongSizesAreRefused) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const auto rgb = noisy(64u * 64 * 3, 4);
  for (const auto& [height, width] : {std::pair{31, 64}, std::pair{64, 31}, std::pair{0, 0}, std::pair{-5, 64}, std::pair{64, 70000}}) {
    const auto image = encoder.encode_image({width, height, rgb}, Posterior::mean);
    ASSERT_FALSE(image.ok());
    EXPECT_EQ(image.error().code, ErrorCode::usage);
    EXPECT_NE(image.error().hint.find("32"), std::string::npos);
    EXPECT_FALSE(encoder.encode_video({22, height, width, {}}, FrameRule::reference, Posterior::mean).ok());
  }
  EXPECT_EQ(encoder.encode_image({64, 60, rgb}, Posterior::mean).error().code, ErrorCode::failure);
  const auto too_short = encoder.encode_video(frames_in_memory(rgb, 21, 64, 64), FrameRule::reference, Posterior::mean);
  EXPECT_EQ(too_short.error().field, "frames");
  EXPECT_FALSE(encoder.encode_video(frames_in_memory(rgb, 22, 64, 64), FrameRule::reference, Posterior::mean).ok())
      << "fewer values than frames";
}

TEST(VideoEncoderDemo, FramesAreReadOnceAndInOrder) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const auto rgb = noisy(45u * 32 * 32 * 3, 5);
  FrameSource source = frames_in_memory(rgb, 45, 32, 32);
  std::vector<int> asked;
  source.read = [&, inner = source.read](int number, std::span<std::uint8_t> out) {
    asked.push_back(number);
    return inner(number, out);
  };
  ASSERT_TRUE(encoder.encode_video(source, FrameRule::reference, Posterior::sampled).ok());
  std::vector<int> expected(39);
  for (int i = 0; i < 39; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(asked, expected);
  source.read = [](int number, std::span<std::uint8_t>) -> Result<void> {
    if (number == 3) return Error{ErrorCode::failure, "unreadable frame", "", ""};
    return {};
  };
  EXPECT_EQ(encoder.encode_video(source, FrameRule::reference, Posterior::sampled).error().message, "unreadable frame");
}

TEST(VideoEncoderDemo, EveryEncodeDrawsTheSameNoise) {
  const auto device = open();
  const VideoEncoder encoder = load(*device);
  const auto rgb = drawn(1, 64, 96);
  const auto first = encoder.encode_image({96, 64, rgb}, Posterior::sampled),
             second = encoder.encode_image({96, 64, rgb}, Posterior::sampled);
  EXPECT_EQ(first->values, second->values);
  EXPECT_NE(first->values, encoder.encode_image({96, 64, rgb}, Posterior::mean)->values);
}

TEST(VideoEncoderDemo, ThreadsDoNotChangeABit) {
  VideoVaeConfig config = demo_config();
  config.tile_size = 64;
  config.tile_overlap_min = 16;
  const auto rgb = noisy(22u * 96 * 96 * 3, 6);
  for (const bool fast : {true, false}) {
    std::vector<float> one;
    for (const int threads : {1, 2}) {
      const auto device = open(threads, fast);
      const VideoEncoder encoder = load(*device, config);
      // Plain nodes are slow; a picture is enough for them.
      const auto result = fast ? encoder.encode_video(frames_in_memory(rgb, 22, 96, 96), FrameRule::reference, Posterior::sampled)
                               : encoder.encode_image({96, 96, std::span(rgb).first(96u * 96 * 3)}, Posterior::sampled);
      ASSERT_TRUE(result.ok()) << result.error().text();
      if (one.empty()) one = result->values;
      EXPECT_EQ(result->values, one) << threads << (fast ? " fast" : " plain");
    }
  }
}

TEST(VideoEncoderDemo, ProgressCountsTilesAndCancelStops) {
  const auto device = open();
  VideoVaeConfig config = demo_config();
  config.tile_size = 64;
  config.tile_overlap_min = 16;
  const VideoEncoder encoder = load(*device, config);
  const auto rgb = noisy(22u * 96 * 64 * 3, 7);
  const FrameSource source = frames_in_memory(rgb, 22, 96, 64);
  std::vector<int> seen;
  int total = 0;
  ASSERT_TRUE(encoder
                  .encode_video(source, FrameRule::reference, Posterior::mean, nullptr,
                                [&](int done, int all) {
                                  seen.push_back(done);
                                  total = all;
                                })
                  .ok());
  EXPECT_EQ(total, 4);  // two clips of two tiles
  EXPECT_EQ(seen, (std::vector{1, 2, 3, 4}));
  CancelToken cancel;
  const auto stopped = encoder.encode_video(source, FrameRule::reference, Posterior::mean, &cancel, [&](int done, int) {
    EXPECT_LE(done, 2);
    if (done == 2) cancel.cancel();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::interrupted);
}

TEST(VideoEncoderDemo, WeightsAndConfigurationAreCheckedWithoutLoading) {
  const auto part = WeightPart::open(kDemoWeights).value();
  VideoVaeConfig config = demo_config();
  const auto bytes = VideoEncoder::check(*part, config);
  ASSERT_TRUE(bytes.ok()) << bytes.error().text();
  const auto device = open();
  std::uint64_t loaded = 0;
  ASSERT_TRUE(VideoEncoder::load(*device, *part, config, nullptr, [&](std::uint64_t done, std::uint64_t) { loaded = done; }).ok());
  EXPECT_EQ(loaded, *bytes);

  VideoVaeConfig wider = config;
  wider.channel_factors.back() *= 2;
  const auto mismatch = VideoEncoder::check(*part, wider);
  ASSERT_FALSE(mismatch.ok());
  EXPECT_EQ(mismatch.error().code, ErrorCode::model);
  EXPECT_NE(mismatch.error().message.find("encoder.down.5.block.0.conv1.weight"), std::string::npos) << mismatch.error().text();
  VideoVaeConfig by_three = config;
  by_three.space_down[1] = 3;
  EXPECT_EQ(VideoEncoder::check(*part, by_three).error().field, "space_down");
  VideoVaeConfig tiny_tiles = config;
  tiny_tiles.tile_size = 16;
  tiny_tiles.tile_overlap_min = 0;
  EXPECT_EQ(VideoEncoder::check(*part, tiny_tiles).error().field, "vae_tile_size");
}

TEST(VideoEncoderDemo, MemoryIsAsAnnounced) {
  const VideoVaeConfig config = demo_config();
  for (const bool video : {false, true}) {
    const auto device = open();
    const VideoEncoder encoder = load(*device, config);
    const auto rgb = drawn(video ? 22 : 1, 256, 256);
    const auto done = video ? encoder.encode_video(frames_in_memory(rgb, 22, 256, 256), FrameRule::reference, Posterior::mean)
                            : encoder.encode_image({256, 256, rgb}, Posterior::mean);
    ASSERT_TRUE(done.ok());
    const auto announced = static_cast<double>(VideoEncoder::working_bytes(config, 256, 256, video));
    const auto activations = static_cast<double>(device->working_bytes());  // without the frames that are kept between steps
    std::printf("%s of 256x256: %.1f MB announced, %.1f MB of activations\n", video ? "video" : "picture", announced / 1e6,
                activations / 1e6);
    EXPECT_GE(announced, activations);
    EXPECT_LE(announced, (video ? 2.0 : 1.1) * activations);
  }
}

double psnr(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum == 0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

// Encoding and decoding with one device, for clips of 22 frames of 96x96.
class RoundTrip {
 public:
  [[nodiscard]] double clip(const std::vector<std::uint8_t>& rgb, Posterior posterior) {
    const TokenGrid latents = encoder_.encode_video(frames_in_memory(rgb, 22, 96, 96), FrameRule::reference, posterior).value();
    std::vector<std::uint8_t> back;
    const auto done = decoder_.decode(view(latents), [&](int, std::span<const float> frame) -> Result<void> {
      back.resize(back.size() + frame.size());
      to_rgb8(frame, std::span(back).last(frame.size()));
      return {};
    });
    EXPECT_TRUE(done.ok());
    return psnr(rgb, back);
  }
  // The first frame, as a picture.
  [[nodiscard]] double picture(const std::vector<std::uint8_t>& rgb, Posterior posterior) {
    const std::span first = std::span(rgb).first(96u * 96 * 3);
    const TokenGrid latents = encoder_.encode_image({96, 96, first}, posterior).value();
    const std::vector<float> frames = decoder_.decode_image(view(latents)).value();
    std::vector<std::uint8_t> back(first.size());
    to_rgb8(std::span(frames).last(first.size()), back);
    return psnr(first, back);
  }

 private:
  static LatentVideo view(const TokenGrid& grid) { return {grid.values, grid.tokens, grid.height, grid.width}; }
  std::unique_ptr<Device> device_ = open(0);
  std::shared_ptr<const WeightPart> part_ = WeightPart::open(kDemoWeights).value();
  VideoEncoder encoder_ = load(*device_);
  VideoDecoder decoder_ = VideoDecoder::load(*device_, *part_, demo_config(), MatrixPrecision::f32).value();
};

// The demonstration model's encoder is rough (models/demo/MODEL_CARD.md) and was trained for the means alone: its variances, and with
// them its samples, mean nothing.
TEST(VideoEncoderDemo, EncodedPicturesAndClipsComeBack) {
  RoundTrip trip;
  std::map<std::string, std::vector<std::uint8_t>> clips{{"drawn disc", drawn(22, 96, 96)}};
  for (const auto& entry : std::filesystem::directory_iterator(kDemo / "eval/reference")) {
    if (entry.path().extension() != ".safetensors") continue;
    const Checkpoint file = Checkpoint::open(entry.path()).value();
    auto& rgb = clips["recorded clip " + entry.path().stem().string()];
    rgb.resize(file.find("frames")->bytes);
    ASSERT_TRUE(file.read(*file.find("frames"), rgb).ok());
  }
  ASSERT_GT(clips.size(), 1u);
  for (const auto& [name, rgb] : clips) {
    const double picture = trip.picture(rgb, Posterior::mean), clip = trip.clip(rgb, Posterior::mean),
                 sampled = trip.clip(rgb, Posterior::sampled);
    std::printf("%s there and back: picture %.1f dB, clip %.1f dB, clip of a sample %.1f dB\n", name.c_str(), picture, clip, sampled);
    EXPECT_GE(picture, 15.0) << name;
    EXPECT_GE(clip, 15.0) << name;
  }
}

}  // namespace
}  // namespace tritium::video_vae
