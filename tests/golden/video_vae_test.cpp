// Video VAE decoder against golden/vae: every video_decode case, the intermediates of the first clip, and the tables of tile and clip
// layouts. Each with the CPU kernels and with plain ggml nodes.
#include "model/video_vae/decoder.h"
#include "model/video_vae/pixels.h"
#include "support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <cmath>
#include <map>
#include <numbers>

namespace tritium::video_vae {
namespace {

// golden/vae/README.md, "stage tensors".
constexpr double kStageTolerance = 2e-4;
constexpr double kStageRelativeTolerance = 1e-3;

std::string in_vae(const std::string& file) { return "vae/" + file; }

std::vector<nlohmann::json> decode_cases() {
  std::vector<nlohmann::json> out;
  const auto document = golden::json("vae/cases.json");
  for (const auto& entry : document["cases"])
    if (entry["kind"] == "video_decode") out.push_back(entry);
  return out;
}

VideoVaeConfig config_of(const std::string& model) {
  const auto documents = golden::json(in_vae(model + ".config.json"));
  const auto parsed = VideoVaeConfig::parse(documents["config.json"].dump(), documents["source/config.json"].dump());
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().text());
  return parsed.ok() ? *parsed : VideoVaeConfig{};
}

// The input of a case: the first tokens of a stored latent video [1, channels, T, h, w].
struct Latents {
  explicit Latents(const nlohmann::json& source) {
    const golden::Tensors file(in_vae(source["file"]));
    const std::string key = source["key"];
    const auto shape = file.shape(key);
    const auto stored = file.f32(key);
    const auto channels = static_cast<std::size_t>(shape[1]), available = static_cast<std::size_t>(shape[2]);
    const auto positions = static_cast<std::size_t>(shape[3] * shape[4]);
    const auto used = source.value("tokens", available);
    for (std::size_t c = 0; c < channels; ++c) {
      const auto first = stored.begin() + static_cast<std::ptrdiff_t>(c * available * positions);
      values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(used * positions));
    }
    tokens = static_cast<int>(used);
    height = static_cast<int>(shape[3]);
    width = static_cast<int>(shape[4]);
  }
  [[nodiscard]] LatentVideo view() const { return {values, tokens, height, width}; }

  std::vector<float> values;
  int tokens, height, width;
};

// Numbers separated by '_' at the end of a key: "proj_out_tok_0_1_27" -> 0, 1, 27.
std::vector<int> trailing_numbers(std::string key) {
  std::vector<int> out;
  for (std::size_t at = key.rfind('_'); at != std::string::npos; at = key.rfind('_')) {
    const std::string part = key.substr(at + 1);
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos) break;
    out.insert(out.begin(), std::stoi(part));
    key.resize(at);
  }
  return out;
}

class GoldenVideoDecoder : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto opened = Device::open("CPU", 2);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    device_ = std::move(*opened);
    device_->set_fast_kernels(GetParam());
  }

  VideoDecoder load(const std::string& model, const VideoVaeConfig& config) {
    const auto part = WeightPart::open(golden::path(in_vae(model + ".safetensors")));
    EXPECT_TRUE(part.ok()) << part.error().text();
    auto decoder = VideoDecoder::load(*device_, **part, config, MatrixPrecision::f32);
    EXPECT_TRUE(decoder.ok()) << decoder.error().text();
    return std::move(decoder).value();
  }

  std::string label(const std::string& name) const { return name + (GetParam() ? " (kernels)" : " (plain)"); }

  std::unique_ptr<Device> device_;
};

// All frames of a case, [frames][3, height, width] in normalized space.
std::vector<std::vector<float>> decode_frames(VideoDecoder& decoder, const Latents& latents, bool image) {
  std::vector<std::vector<float>> frames;
  if (image) {
    const auto decoded = decoder.decode_image(latents.view());
    EXPECT_TRUE(decoded.ok()) << decoded.error().text();
    const auto count = static_cast<std::size_t>(decoder.config().temporal_ratio()), size = decoded->size() / count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = decoded->begin() + static_cast<std::ptrdiff_t>(i * size);
      frames.emplace_back(first, first + static_cast<std::ptrdiff_t>(size));
    }
    return frames;
  }
  const auto done = decoder.decode(latents.view(), [&](int index, std::span<const float> frame) -> Result<void> {
    EXPECT_EQ(index, static_cast<int>(frames.size()));
    frames.emplace_back(frame.begin(), frame.end());
    return {};
  });
  EXPECT_TRUE(done.ok()) << done.error().text();
  return frames;
}

// Picks what a case stores, [1, 3, frames, rows, columns], from all frames.
std::vector<float> select(const std::vector<std::vector<float>>& frames, const nlohmann::json& expect, std::size_t height,
                          std::size_t width) {
  std::vector<std::size_t> numbers(frames.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  if (expect.contains("frames")) numbers = expect["frames"].get<std::vector<std::size_t>>();
  const std::size_t stride = expect.value("row_stride", std::size_t{1});
  std::vector<float> out;
  for (std::size_t c = 0; c < 3; ++c)
    for (const std::size_t number : numbers)
      for (std::size_t y = 0; y < height; y += stride)
        for (std::size_t x = 0; x < width; x += stride) out.push_back(frames.at(number)[(c * height + y) * width + x]);
  return out;
}

TEST_P(GoldenVideoDecoder, EveryDecodeCaseMatchesTheReference) {
  const auto cases = decode_cases();
  ASSERT_FALSE(cases.empty());
  for (const auto& entry : cases) {
    const std::string name = entry["name"], model = entry["model"];
    SCOPED_TRACE(name);
    VideoVaeConfig config = config_of(model);
    config.tile_size = entry.value("tile", config.tile_size);
    config.tile_overlap_min = entry.value("overlap", config.tile_overlap_min);
    VideoDecoder decoder = load(model, config);
    const Latents latents(entry["latents"]);
    auto frames = decode_frames(decoder, latents, entry.value("image_decode", false));
    const auto& expect = entry["expect"];
    if (expect["space"] == "pixels")
      for (auto& frame : frames) to_pixels(frame, frame);
    else
      ASSERT_EQ(expect["space"], "normalized");
    const auto ratio = static_cast<std::size_t>(config.spatial_ratio());
    const auto result =
        select(frames, expect, static_cast<std::size_t>(latents.height) * ratio, static_cast<std::size_t>(latents.width) * ratio);
    const golden::Tensors file(in_vae(expect["file"]));
    golden::expect_within(label(name), golden::max_abs_diff(result, file.f32(expect["key"])), expect["tolerance_abs"]);
  }
}

// The intermediates of the first tile of a decoded clip, by name.
using Stages = std::map<std::string, std::vector<float>>;

Stages record_first_tile(Device& device, VideoDecoder& decoder, const LatentVideo& latents) {
  const std::string prefix = "video_vae.clip0.tile0_0.";
  Stages stages;
  device.set_observer([&](const std::string& name, std::span<const std::int64_t>, std::span<const float> values) {
    if (name.starts_with(prefix)) stages[name.substr(prefix.size())] = {values.begin(), values.end()};
  });
  const auto done = decoder.decode(latents, [](int, std::span<const float>) { return Result<void>{}; });
  EXPECT_TRUE(done.ok()) << done.error().text();
  device.set_observer({});
  return stages;
}

// [rows, channels] -> [channels, rows], the order of the golden latents.
std::vector<float> channels_first(const std::vector<float>& rows, std::size_t channels) {
  std::vector<float> out(rows.size());
  const std::size_t count = rows.size() / channels;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t c = 0; c < channels; ++c) out[c * count + i] = rows[i * channels + c];
  return out;
}

std::vector<float> pick_rows(const std::vector<float>& rows, std::size_t width, const std::vector<int>& numbers) {
  std::vector<float> out;
  for (const int number : numbers) {
    const auto first = rows.begin() + number * static_cast<std::ptrdiff_t>(width);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

// [frames, 3, pixels] -> [3, frames, pixels]
std::vector<float> planes_first(const std::vector<float>& frames, std::size_t count) {
  std::vector<float> out;
  const std::size_t plane = frames.size() / (count * 3);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < count; ++i) {
      const auto first = frames.begin() + static_cast<std::ptrdiff_t>((i * 3 + c) * plane);
      out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(plane));
    }
  return out;
}

// cos or sin of the rotation angles as the reference keeps them: the pairs twice, once for each half.
std::vector<float> doubled_table(const std::vector<float>& angles, std::size_t pairs, float (*function)(float)) {
  std::vector<float> out;
  for (std::size_t row = 0; row < angles.size() / pairs; ++row)
    for (int half = 0; half < 2; ++half)
      for (std::size_t i = 0; i < pairs; ++i) out.push_back(function(angles[row * pairs + i]));
  return out;
}

// What the decoder has for a golden stage "dec.<stage>".
std::vector<float> stage_values(const std::string& stage, const Stages& stages, const VideoVaeConfig& config, const TileShape& shape) {
  const std::vector<float> angles = rotary_angles(config, shape);
  const auto pairs = static_cast<std::size_t>(config.rotary_pairs());
  const auto features = static_cast<std::size_t>(config.patch_features());
  if (stage == "inv_freq") {
    const auto frequencies = rotary_frequencies(config);
    return {frequencies.begin(), frequencies.end()};
  }
  if (stage == "rope_cos") return doubled_table(angles, pairs, std::cos);
  if (stage == "rope_sin") return doubled_table(angles, pairs, std::sin);
  if (stage == "z_denorm") return channels_first(stages.at("z_denorm"), static_cast<std::size_t>(config.latent_channels));
  if (stage == "post_quant_conv") return channels_first(stages.at("post_quant_conv"), static_cast<std::size_t>(config.z_channels));
  if (stage.starts_with("proj_out_tok_")) return pick_rows(stages.at("proj_out"), features, trailing_numbers(stage));
  if (stage.starts_with("clip_raw_frames_")) {
    const auto frames = trailing_numbers(stage);
    return planes_first(unpatchify(config, shape, stages.at("proj_out"), 0, frames), frames.size());
  }
  const auto found = stages.find(stage);
  return found == stages.end() ? std::vector<float>{} : found->second;
}

// The first case whose first clip, de-normalized, is the recorded one.
const nlohmann::json* case_of_stages(const std::vector<nlohmann::json>& cases, const golden::Tensors& file, const VideoVaeConfig& config) {
  const auto shape = file.shape("dec.z_denorm");
  const auto expected = file.f32("dec.z_denorm");
  for (const auto& entry : cases) {
    const Latents latents(entry["latents"]);
    if (latents.tokens != shape[2] || latents.height != shape[3] || latents.width != shape[4]) continue;
    std::vector<float> values = latents.values;
    const std::size_t channel_size = values.size() / config.latents_std.size();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = values[i] * config.latents_std[i / channel_size] + config.latents_mean[i / channel_size];
    if (golden::max_abs_diff(values, expected) < kStageTolerance) return &entry;
  }
  return nullptr;
}

TEST_P(GoldenVideoDecoder, EveryStageMatchesTheReference) {
  const golden::Tensors file(in_vae("video_stages.safetensors"));
  const auto cases = decode_cases();
  ASSERT_FALSE(cases.empty());
  const std::string model = cases.front()["model"];
  const VideoVaeConfig config = config_of(model);
  const auto* entry = case_of_stages(cases, file, config);
  ASSERT_NE(entry, nullptr) << "no video_decode case has the latents of dec.z_denorm";
  VideoDecoder decoder = load((*entry)["model"], config);
  const Latents latents((*entry)["latents"]);
  const Stages stages = record_first_tile(*device_, decoder, latents.view());
  const TileShape shape{latents.tokens, latents.height, latents.width};
  int checked = 0;
  for (const std::string& key : file.names()) {
    if (!key.starts_with("dec.")) continue;
    const auto expected = file.f32(key);
    const auto result = stage_values(key.substr(4), stages, config, shape);
    ASSERT_EQ(result.size(), expected.size()) << key;
    golden::expect_within(label(key), golden::max_abs_diff(result, expected), kStageTolerance);
    golden::expect_within(label(key) + " relative", golden::rel_l2(result, expected), kStageRelativeTolerance);
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenVideoDecoder, ::testing::Values(true, false),
                         [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

TEST(GoldenVideoTables, TileLayoutsOfAnAxis) {
  const auto tables = golden::json("vae/tables.json");
  const int step = config_of(decode_cases().front()["model"]).spatial_ratio();
  int checked = 0;
  for (const auto& [sizes, layouts] : tables["tiling"].items()) {
    const std::size_t slash = sizes.find('/');
    const int tile = std::stoi(sizes.substr(0, slash)), overlap = std::stoi(sizes.substr(slash + 1));
    for (const auto& layout : layouts) {
      const AxisTiles result = tile_axis(layout["length"], tile, overlap, step);
      EXPECT_EQ(result.tile, layout["tile"]) << sizes << " " << layout;
      EXPECT_EQ(nlohmann::json(result.starts), layout["starts"]) << sizes << " " << layout;
      EXPECT_EQ(nlohmann::json(result.overlaps), layout["overlaps"]) << sizes << " " << layout;
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(GoldenVideoTables, ClipsOfADecode) {
  const auto tables = golden::json("vae/tables.json");
  const TemporalGeometry geometry = config_of(decode_cases().front()["model"]).temporal();
  ASSERT_FALSE(tables["temporal_decode"].empty());
  for (const auto& row : tables["temporal_decode"]) {
    const auto& expected = row["output_frames"].is_null() ? row["extended_rule"] : row;
    const DecodePlan plan = plan_decode(geometry, row["latent_tokens"]);
    EXPECT_EQ(plan.pad_tokens, expected["pad_tokens"]) << row;
    EXPECT_EQ(plan.clips, expected["clips"]) << row;
    EXPECT_EQ(plan.total_frames, expected["total_frames"]) << row;
    EXPECT_EQ(plan.dropped_tail_frames, expected["dropped_tail_frames"]) << row;
    EXPECT_EQ(plan.output_frames, expected["output_frames"]) << row;
  }
}

TEST(GoldenVideoTables, ClipsOfAnEncode) {
  const auto tables = golden::json("vae/tables.json");
  const TemporalGeometry geometry = config_of(decode_cases().front()["model"]).temporal();
  ASSERT_FALSE(tables["temporal_encode"].empty());
  for (const auto& row : tables["temporal_encode"]) {
    const EncodePlan plan = plan_encode(geometry, row["frames"]);
    EXPECT_EQ(plan.padded_frames, row["padded_frames"]) << row;
    EXPECT_EQ(plan.clips, row["clips"]) << row;
    EXPECT_EQ(plan.tokens_before_drop, row["tokens_before_drop"]) << row;
    EXPECT_EQ(plan.tokens, row["tokens"]) << row;
    const auto usable = usable_video_frames(geometry, row["frames"]);
    EXPECT_EQ(usable.has_value() ? nlohmann::json(*usable) : nlohmann::json(), row["encode_videos_uses"]) << row;
  }
}

}  // namespace
}  // namespace tritium::video_vae
