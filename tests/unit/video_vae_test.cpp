// The video VAE decoder without golden data: layouts, composition, configuration, and the demonstration model's own decoder.
#include "base/files.h"
#include "model/video_vae/decoder.h"
#include "model/video_vae/pixels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tritium::video_vae {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo";
const std::filesystem::path kDemoWeights = kDemo / "FL2VA/video_vae/source/model.safetensors";

std::string demo_text(const std::string& relative) {
  const auto text = read_file(kDemo / "FL2VA/video_vae" / relative);
  EXPECT_TRUE(text.ok()) << relative;
  return text.ok() ? *text : "{}";
}

VideoVaeConfig demo_config() {
  const auto config = VideoVaeConfig::parse(demo_text("config.json"), demo_text("source/config.json"));
  EXPECT_TRUE(config.ok()) << config.error().text();
  return *config;
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(engine);
  return out;
}

// --- layouts ----------------------------------------------------------------------------------------------------------------------

TEST(VideoVaeTiling, EveryLengthIsCoveredExactly) {
  for (int length = 16; length <= 4096; length += 16) {
    const AxisTiles tiles = tile_axis(length, 256, 64, 16);
    EXPECT_EQ(tiles.starts.front(), 0);
    EXPECT_EQ(tiles.starts.back() + tiles.tile, length);
    ASSERT_EQ(tiles.overlaps.size() + 1, tiles.starts.size());
    for (std::size_t k = 0; k < tiles.overlaps.size(); ++k) {
      EXPECT_EQ(tiles.starts[k] + tiles.tile - tiles.starts[k + 1], tiles.overlaps[k]);
      EXPECT_GE(tiles.overlaps[k], 64);
      EXPECT_LT(tiles.overlaps[k], 256);
      EXPECT_EQ(tiles.starts[k] % 16, 0);
    }
  }
}

TEST(VideoVaeTiling, ReleasedModelKeepsSeventeenAndFiveFramesOfAClip) {
  const TemporalGeometry geometry{17, 3, 4};
  EXPECT_EQ(geometry.tokens_per_clip(), 5);
  EXPECT_EQ(geometry.tokens_per_decode(), 7);
  EXPECT_EQ(geometry.kept_frames(), (std::vector<int>{3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 23, 24, 25, 26, 27}));
  EXPECT_EQ(plan_decode(geometry, 37).output_frames, 124);
  EXPECT_EQ(plan_decode(geometry, 37).clips, 7);
  EXPECT_EQ(plan_decode(geometry, 107).output_frames, 362);
}

// --- composition ------------------------------------------------------------------------------------------------------------------

// One pixel of a blended picture by the definition: which tile shows it, mixed with the raw tiles above and to the left.
float composed_pixel(const AxisTiles& rows, const AxisTiles& columns, const std::vector<std::vector<float>>& raw, int plane, int y, int x) {
  const auto owner = [](const AxisTiles& axis, int position) {  // the last tile that begins at or before the position
    int k = 0;
    while (k + 1 < axis.count() && axis.starts[static_cast<std::size_t>(k + 1)] <= position) ++k;
    return k;
  };
  const int i = owner(rows, y), j = owner(columns, x);
  const auto at = [&](int ti, int tj) {
    const int ty = y - rows.starts[static_cast<std::size_t>(ti)], tx = x - columns.starts[static_cast<std::size_t>(tj)];
    return raw[static_cast<std::size_t>(ti * columns.count() + tj)][static_cast<std::size_t>((plane * rows.tile + ty) * columns.tile + tx)];
  };
  float value = at(i, j);
  const int ty = y - rows.starts[static_cast<std::size_t>(i)], tx = x - columns.starts[static_cast<std::size_t>(j)];
  if (i > 0 && ty < rows.overlaps[static_cast<std::size_t>(i - 1)]) {
    const float w = static_cast<float>(ty) / static_cast<float>(rows.overlaps[static_cast<std::size_t>(i - 1)]);
    value = at(i - 1, j) * (1.0f - w) + value * w;
  }
  if (j > 0 && tx < columns.overlaps[static_cast<std::size_t>(j - 1)]) {
    const float w = static_cast<float>(tx) / static_cast<float>(columns.overlaps[static_cast<std::size_t>(j - 1)]);
    value = at(i, j - 1) * (1.0f - w) + value * w;
  }
  return value;
}

TEST(VideoVaeCompose, C7TilesAreBlendedAsDefinedOnEveryCanvas) {
  const int sizes[][2] = {{768, 1344}, {1344, 768}, {480, 832}, {544, 960}, {112, 64}, {272, 256}, {32, 32}};
  for (const auto& [height, width] : sizes) {
    const AxisTiles rows = tile_axis(height, 256, 64, 16), columns = tile_axis(width, 256, 64, 16);
    const int planes = 2;
    std::vector<std::vector<float>> raw;
    TileComposer composer(rows, columns, planes);
    for (int k = 0; k < rows.count() * columns.count(); ++k) {
      raw.push_back(random_values(static_cast<std::size_t>(planes * rows.tile * columns.tile), static_cast<unsigned>(k)));
      composer.place(raw.back());
    }
    const std::vector<float> picture = composer.take();
    ASSERT_EQ(picture.size(), static_cast<std::size_t>(planes * height * width));
    std::size_t wrong = 0, at = 0;
    for (int plane = 0; plane < planes; ++plane)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) wrong += picture[at++] != composed_pixel(rows, columns, raw, plane, y, x);
    EXPECT_EQ(wrong, 0u) << height << "x" << width;
  }
}

TEST(VideoVaeCompose, ClipsAreCrossFadedAndHandedOnInOrder) {
  const TemporalGeometry geometry{17, 3, 4};
  std::vector<float> shown;
  ClipJoiner joiner(geometry, 1, 36, [&](int index, std::span<const float> frame) -> Result<void> {
    EXPECT_EQ(index, static_cast<int>(shown.size()));
    shown.push_back(frame[0]);
    return {};
  });
  std::vector<float> first(22), second(22);
  for (std::size_t i = 0; i < 22; ++i) {
    first[i] = static_cast<float>(i);
    second[i] = 100.0f + static_cast<float>(i);
  }
  ASSERT_TRUE(joiner.add(first).ok());
  EXPECT_EQ(shown.size(), 17u);
  ASSERT_TRUE(joiner.add(second).ok());
  EXPECT_EQ(shown.size(), 34u);
  ASSERT_TRUE(joiner.finish().ok());
  ASSERT_EQ(shown.size(), 36u);  // 3 of the 39 are the padding's
  EXPECT_EQ(shown[16], 16.0f);
  for (std::size_t i = 0; i < 5; ++i) {
    const float w = static_cast<float>(i) / 5.0f;
    EXPECT_FLOAT_EQ(shown[17 + i], first[17 + i] * (1.0f - w) + second[i] * w);
  }
  EXPECT_EQ(shown[22], 105.0f);
  EXPECT_EQ(shown[35], 118.0f);
}

TEST(VideoVaePixels, RoundsHalfToEvenAndClamps) {
  const auto normalized = [](float pixel, std::size_t channel) { return (pixel - kPixelMean[channel]) / kPixelStd[channel]; };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> frame{normalized(-0.2f, 0), normalized(0.2f, 0), normalized(1.5f, 1), normalized(1.0f, 1), nan,
                                 normalized(0.6f, 2)};
  std::vector<std::uint8_t> rgb(6);
  to_rgb8(frame, rgb);
  EXPECT_EQ(rgb, (std::vector<std::uint8_t>{0, 255, 0, 51, 255, 153}));
  std::vector<float> pixels(6);
  to_pixels(frame, pixels);
  EXPECT_EQ(pixels[0], 0.0f);
  EXPECT_NEAR(pixels[1], 0.2f, 1e-6f);
  EXPECT_EQ(pixels[2], 1.0f);
  EXPECT_EQ(pixels[4], 0.0f);
}

// --- configuration ----------------------------------------------------------------------------------------------------------------

TEST(VideoVaeConfig, DemoModelIsRead) {
  const VideoVaeConfig config = demo_config();
  EXPECT_EQ(config.spatial_ratio(), 16);
  EXPECT_EQ(config.temporal_ratio(), 4);
  EXPECT_EQ(config.hidden(), config.heads * config.head_dim);
  EXPECT_EQ(config.rotary_pairs() * 8, config.head_dim * 3);
  EXPECT_EQ(config.latents_std.size(), static_cast<std::size_t>(config.latent_channels));
}

// Replaces the first occurrence; the rest of the document stays as it is.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(VideoVaeConfig, ProblemsNameFileKeyAndValue) {
  const std::string config = demo_text("config.json"), source = demo_text("source/config.json");
  struct Fault {
    bool in_source;
    std::string from, to, key, shown;
  };
  const Fault faults[] = {
      {false, "\"vae_clip_length\": 17", "\"vae_clip_length\": 0", "vae_clip_length", "0"},
      {false, "\"vae_token_drop\": 3", "\"vae_token_drop\": 5", "vae_token_drop", "less than the 5 tokens"},
      {false, "\"vae_tile_size\": 256", "\"vae_tile_size\": 250", "vae_tile_size", "multiple of 16"},
      {false, "\"vae_tile_overlap_min\": 64", "\"vae_tile_overlap_min\": 256", "vae_tile_overlap_min", "less than"},
      {false, "\"vae_tile_overlap_min\"", "\"other\"", "vae_tile_overlap_min", "missing"},
      {false, "\"vae_decoder_tiling\": 1", "\"vae_decoder_tiling\": 0", "vae_decoder_tiling", "only 1"},
      {false, "\"latents_mean\": [", "\"latents_mean\": [1.0, ", "latents_mean", "24 numbers"},
      {false, "\"latents_std\": [", "\"latents_std\": [-1.0], \"other\": [", "latents_std", "24 numbers"},
      {true, "\"ch\": 32", "\"ch\": 40", "ch", "multiple of 32"},
      {true, "\"ch\": 32", "\"ch\": \"32\"", "ch", "\"32\""},
      {true, "\"num_res_blocks\": 1", "\"num_res_blocks\": 1.5", "num_res_blocks", "1.5"},
      {true, "\"in_channels\": 3", "\"in_channels\": 4", "in_channels", "4"},
      {true, "\"embed_dim\": 24", "\"embed_dim\": 16", "latents_mean", "16 numbers"},
      {true, "\"vae_ratio\": 16", "\"vae_ratio\": 8", "vae_ratio", "only 16"},
      {true, "\"causal_decoder\": false", "\"causal_decoder\": true", "causal_decoder", "only false"},
      {true, "\"heads\": 4", "\"heads\": -4", "vit_decoder_kwargs.heads", "-4"},
      {true, "\"num_layers\": 4", "\"num_layers\": 99999999999", "vit_decoder_kwargs.num_layers", "99999999999"},
      {true, "\"rope_theta\": 100.0", "\"rope_theta\": 0", "vit_decoder_kwargs.rope_theta", "above 0"},
      {true, "\"rope_dim_ratio\": 0.75", "\"rope_dim_ratio\": 0.5", "vit_decoder_kwargs.rope_dim_ratio", "multiple of 3"},
      {true, "\"vit_decoder_kwargs\"", "\"other\"", "vit_decoder_kwargs", "missing"},
  };
  for (const Fault& fault : faults) {
    const auto parsed = VideoVaeConfig::parse(fault.in_source ? config : replaced(config, fault.from, fault.to),
                                              fault.in_source ? replaced(source, fault.from, fault.to) : source);
    ASSERT_FALSE(parsed.ok()) << fault.to;
    EXPECT_EQ(parsed.error().code, ErrorCode::model);
    EXPECT_EQ(parsed.error().field, fault.key);
    EXPECT_NE(parsed.error().message.find(fault.shown), std::string::npos) << parsed.error().text();
    EXPECT_NE(parsed.error().message.find("config.json"), std::string::npos) << parsed.error().text();
  }
  EXPECT_FALSE(VideoVaeConfig::parse("[]", source).ok());
  EXPECT_FALSE(VideoVaeConfig::parse(config, "{\"ch\": ").ok());
}

// --- the demonstration model ------------------------------------------------------------------------------------------------------

class VideoVaeDemo : public ::testing::Test {
 protected:
  static std::unique_ptr<Device> open(int threads) {
    auto device = Device::open("CPU", threads);
    EXPECT_TRUE(device.ok()) << device.error().text();
    return std::move(*device);
  }

  static VideoDecoder load(Device& device, const VideoVaeConfig& config = demo_config(),
                           const std::filesystem::path& weights = kDemoWeights, MatrixPrecision precision = MatrixPrecision::f32) {
    const auto part = WeightPart::open(weights);
    EXPECT_TRUE(part.ok()) << part.error().text();
    auto decoder = VideoDecoder::load(device, **part, config, precision);
    EXPECT_TRUE(decoder.ok()) << decoder.error().text();
    return std::move(decoder).value();
  }

  // All frames one after the other; empty if the decoding failed.
  static std::vector<float> frames_of(VideoDecoder& decoder, const LatentVideo& latents) {
    std::vector<float> frames;
    const auto done = decoder.decode(latents, [&](int, std::span<const float> frame) -> Result<void> {
      frames.insert(frames.end(), frame.begin(), frame.end());
      return {};
    });
    EXPECT_TRUE(done.ok()) << done.error().text();
    return frames;
  }
};

struct Reference {
  explicit Reference(const std::filesystem::path& path) {
    const auto file = Checkpoint::open(path);
    EXPECT_TRUE(file.ok()) << file.error().text();
    const TensorInfo* latent_info = file->find("latents_video");
    const TensorInfo* frame_info = file->find("frames");
    latents = *file->read_f32(*latent_info);
    frames.resize(frame_info->bytes);
    EXPECT_TRUE(file->read(*frame_info, frames).ok());
    tokens = static_cast<int>(latent_info->shape[1]);
    height = static_cast<int>(latent_info->shape[2]);
    width = static_cast<int>(latent_info->shape[3]);
  }
  [[nodiscard]] LatentVideo view() const { return {latents, tokens, height, width}; }

  std::vector<float> latents;        // [24, T, h, w]
  std::vector<std::uint8_t> frames;  // [F, H, W, 3]
  int tokens, height, width;
};

double psnr(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum == 0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

TEST_F(VideoVaeDemo, ReferenceLatentsGiveTheReferenceFrames) {
  const auto device = open(0);
  int checked = 0;
  for (const MatrixPrecision precision : {MatrixPrecision::f32, MatrixPrecision::bf16}) {
    VideoDecoder decoder = load(*device, demo_config(), kDemoWeights, precision);
    for (const auto& entry : std::filesystem::directory_iterator(kDemo / "eval/reference")) {
      if (entry.path().extension() != ".safetensors") continue;
      const Reference reference(entry.path());
      std::vector<std::uint8_t> rgb;
      const auto begin = std::chrono::steady_clock::now();
      const auto done = decoder.decode(reference.view(), [&](int, std::span<const float> frame) -> Result<void> {
        rgb.resize(rgb.size() + frame.size());
        to_rgb8(frame, std::span(rgb).last(frame.size()));
        return {};
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      ASSERT_TRUE(done.ok()) << done.error().text();
      ASSERT_EQ(rgb.size(), reference.frames.size());
      const double quality = psnr(rgb, reference.frames);
      std::printf("%s %s: %.1f dB, %.3f s\n", entry.path().filename().c_str(), precision == MatrixPrecision::f32 ? "f32" : "bf16", quality,
                  seconds.count());
      EXPECT_GE(quality, 45.0) << entry.path();
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST_F(VideoVaeDemo, ThreadsDoNotChangeABit) {
  const Reference reference(kDemo / "eval/reference/0.safetensors");
  for (const bool fast : {true, false}) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2}) {
      const auto device = open(threads);
      device->set_fast_kernels(fast);
      VideoDecoder decoder = load(*device);
      results.push_back(frames_of(decoder, reference.view()));
    }
    ASSERT_FALSE(results[0].empty());
    ASSERT_EQ(results[0].size(), results[1].size());
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)), 0) << (fast ? "kernels" : "plain");
  }
}

// A latent video [24, T, h, w] of which `tokens` tokens from `first` on are kept.
std::vector<float> cut(const std::vector<float>& values, int all_tokens, int first, int tokens, int positions) {
  std::vector<float> out;
  const std::size_t channels = values.size() / static_cast<std::size_t>(all_tokens * positions);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(c) * all_tokens * positions + std::ptrdiff_t{first} * positions;
    out.insert(out.end(), begin, begin + std::ptrdiff_t{tokens} * positions);
  }
  return out;
}

TEST_F(VideoVaeDemo, C7TheLastFramesAreThoseOfTheLastClipAlone) {
  const auto device = open(0);
  VideoVaeConfig config = demo_config();
  config.tile_size = 64;
  config.tile_overlap_min = 16;
  VideoDecoder decoder = load(*device, config);
  const int tokens = 12, height = 6, width = 5, positions = height * width;
  const std::vector<float> latents = random_values(static_cast<std::size_t>(config.latent_channels * tokens * positions), 7);
  const std::vector<float> tail = cut(latents, tokens, tokens - 7, 7, positions);
  const std::vector<float> whole = frames_of(decoder, {latents, tokens, height, width});
  const std::vector<float> last = frames_of(decoder, {tail, 7, height, width});
  const std::size_t frame = static_cast<std::size_t>(3 * 256 * positions);
  ASSERT_EQ(whole.size(), 39 * frame);
  ASSERT_EQ(last.size(), 22 * frame);
  // The five cross-faded frames differ, the other 17 are the same bits.
  EXPECT_EQ(std::memcmp(&whole[22 * frame], &last[5 * frame], 17 * frame * sizeof(float)), 0);
}

TEST_F(VideoVaeDemo, C8EveryTokenCountGivesItsFrames) {
  const auto device = open(0);
  const VideoVaeConfig config = demo_config();
  VideoDecoder decoder = load(*device);
  const std::vector<float> latents = random_values(static_cast<std::size_t>(config.latent_channels * 13 * 4), 3);
  const int expected[] = {1, 5, 9, 13, 17, 18, 22, 26, 30, 34, 35, 39, 43};
  for (int tokens = 1; tokens <= 13; ++tokens) {
    const std::vector<float> part = cut(latents, 13, 0, tokens, 4);
    const std::vector<float> frames = frames_of(decoder, {part, tokens, 2, 2});
    EXPECT_EQ(frames.size(), static_cast<std::size_t>(expected[tokens - 1]) * 3 * 32 * 32) << tokens << " tokens";
  }
  const std::vector<float> one = cut(latents, 13, 0, 1, 4), two = cut(latents, 13, 0, 2, 4);
  const auto image = decoder.decode_image({one, 1, 2, 2});
  ASSERT_TRUE(image.ok()) << image.error().text();
  EXPECT_EQ(image->size(), 4u * 3 * 32 * 32);
  EXPECT_FALSE(decoder.decode_image({two, 2, 2, 2}).ok());
}

TEST_F(VideoVaeDemo, WrongLatentsAreRefused) {
  const auto device = open(1);
  VideoDecoder decoder = load(*device);
  const auto sink = [](int, std::span<const float>) { return Result<void>{}; };
  std::vector<float> latents(24 * 7 * 4, 0.0f);
  EXPECT_FALSE(decoder.decode({latents, 7, 2, 3}, sink).ok());
  EXPECT_FALSE(decoder.decode({latents, 0, 2, 2}, sink).ok());
  EXPECT_FALSE(decoder.decode({latents, -7, -2, 2}, sink).ok());
  latents[5] = std::numeric_limits<float>::infinity();
  const auto result = decoder.decode({latents, 7, 2, 2}, sink);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("not finite"), std::string::npos);
}

TEST_F(VideoVaeDemo, CancellingStopsBetweenOrInsideTiles) {
  const auto device = open(0);
  VideoVaeConfig config = demo_config();
  config.tile_size = 32;
  config.tile_overlap_min = 16;
  VideoDecoder decoder = load(*device, config);
  const std::vector<float> latents = random_values(24 * 7 * 9, 5);
  CancelToken cancel;
  int tiles = 0, announced = 0;
  const auto result = decoder.decode(
      {latents, 7, 3, 3}, [](int, std::span<const float>) { return Result<void>{}; }, &cancel,
      [&](int done, int total) {
        tiles = done;
        announced = total;
        if (done == 2) cancel.cancel();
      });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::interrupted);
  EXPECT_EQ(tiles, 2);
  EXPECT_EQ(announced, 4);
}

TEST_F(VideoVaeDemo, AFailingSinkStopsTheDecoding) {
  const auto device = open(0);
  VideoDecoder decoder = load(*device);
  const std::vector<float> latents = random_values(24 * 7 * 4, 5);
  int frames = 0;
  const auto result = decoder.decode({latents, 7, 2, 2}, [&](int, std::span<const float>) -> Result<void> {
    if (++frames == 3) return Error{ErrorCode::failure, "disk full", "", ""};
    return {};
  });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "disk full");
  EXPECT_EQ(frames, 3);
}

// A copy of the demo weights in which a float32 tensor is filled with one value.
class PatchedWeights {
 public:
  PatchedWeights(const std::string& tensor, float value)
      : path_(std::filesystem::temp_directory_path() / fmt::format("tritium-video-vae-{}.safetensors", ::getpid())) {
    auto bytes = read_file(kDemoWeights);
    const auto checkpoint = Checkpoint::open(kDemoWeights);
    const TensorInfo* info = checkpoint->find(tensor);
    for (std::uint64_t at = 0; at < info->bytes; at += sizeof value) std::memcpy(bytes->data() + info->offset + at, &value, sizeof value);
    EXPECT_TRUE(write_file_atomically(path_, *bytes).ok());
  }
  ~PatchedWeights() { std::filesystem::remove(path_); }
  PatchedWeights(const PatchedWeights&) = delete;
  PatchedWeights& operator=(const PatchedWeights&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST_F(VideoVaeDemo, ATileThatIsNotFiniteIsNamed) {
  const PatchedWeights weights("decoder.norm_out.weight", 3e38f);
  const auto device = open(0);
  VideoDecoder decoder = load(*device, demo_config(), weights.path());
  const std::vector<float> latents = random_values(24 * 7 * 4, 5);
  const auto result = decoder.decode({latents, 7, 2, 2}, [](int, std::span<const float>) { return Result<void>{}; });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::rejected);
  EXPECT_EQ(result.error().message, "video VAE decoder produced non-finite values in clip 0, tile (0,0)");
}

TEST_F(VideoVaeDemo, WeightsAreCheckedAgainstTheConfigurationWithoutLoading) {
  const auto part = WeightPart::open(kDemoWeights);
  ASSERT_TRUE(part.ok());
  VideoVaeConfig config = demo_config();
  const auto wide = VideoDecoder::check(**part, config, MatrixPrecision::f32);
  const auto narrow = VideoDecoder::check(**part, config, MatrixPrecision::bf16);
  ASSERT_TRUE(wide.ok() && narrow.ok());
  EXPECT_LT(*narrow, *wide);
  EXPECT_GT(VideoDecoder::frame_bytes(config, 48, 84), std::uint64_t{27} * 3 * 768 * 1344 * 4);
  config.layers += 1;
  config.z_channels = 32;
  const auto wrong = VideoDecoder::check(**part, config, MatrixPrecision::f32);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::model);
  EXPECT_NE(wrong.error().message.find("decoder.transformer_blocks.4"), std::string::npos) << wrong.error().text();
  EXPECT_NE(wrong.error().message.find("post_quant_conv.weight"), std::string::npos) << wrong.error().text();
}

}  // namespace
}  // namespace tritium::video_vae
