// What pictures and videos become before the vision tower: sizes, patches, and the configuration files that say how.
#include "pipeline/vision_input.h"
#include "base/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using Json = nlohmann::json;

const std::filesystem::path kDemoText = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA/text_encoder";
constexpr ResizeLimits kOfficialImage{65536, 16777216, 32, 2}, kOfficialVideo{4096, 25165824, 32, 2};

std::string demo_text(const std::string& name) {
  const auto text = read_file(kDemoText / name);
  EXPECT_TRUE(text.ok()) << name;
  return text.ok() ? *text : "{}";
}

Picture grey(int width, int height, std::uint8_t value = 90) {
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3, value)};
}

Size size_or_fail(const Result<Size>& size) {
  EXPECT_TRUE(size.ok()) << size.error().text();
  return size.ok() ? *size : Size{};
}

// ---- sizes -----------------------------------------------------------------------------------------------------------------------

TEST(SmartResize, TinyPicturesAreEnlarged) {
  for (const int side : {1, 5}) {
    const auto rows = prepare_image(grey(side, side), {PatchShape{}, kOfficialImage});
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    EXPECT_EQ(rows->grid, (PatchGrid{1, 16, 16})) << side;
    for (const float value : rows->values) ASSERT_EQ(value, (90.0f - 127.5f) / 127.5f);
  }
}

TEST(SmartResize, HugePicturesAreCappedByTheFloorRule) {
  const auto rows = prepare_image(grey(12000, 9000), {PatchShape{}, kOfficialImage});
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->grid, (PatchGrid{1, 3520 / 16, 4704 / 16}));
  EXPECT_LE(rows->grid.patches() * 256, kOfficialImage.max_pixels);
  EXPECT_EQ(rows->values.size(), static_cast<std::size_t>(rows->grid.patches() * 1536));
}

TEST(SmartResize, RatioOf200IsTheLimit) {
  EXPECT_EQ(size_or_fail(smart_resize_image(200, 1, kOfficialImage)), (Size{3648, 32}));
  EXPECT_EQ(size_or_fail(smart_resize_image(32, 6400, kOfficialImage)), (Size{32, 6400}));
  for (const auto& [w, h] :
       {std::pair(201, 1), std::pair(1, 201), std::pair(32, 6401), std::pair(0, 5), std::pair(5, 0), std::pair(-3, -3)}) {
    const auto size = smart_resize_image(w, h, kOfficialImage);
    ASSERT_FALSE(size.ok()) << w << 'x' << h;
    EXPECT_EQ(size.error().code, ErrorCode::usage);
    EXPECT_EQ(size.error().field, "image");
    EXPECT_NE(size.error().message.find(fmt::format("{}x{}", w, h)), std::string::npos);
  }
  EXPECT_FALSE(smart_resize_image(std::int64_t{1} << 40, std::int64_t{1} << 40, kOfficialImage).ok());
}

TEST(SmartResize, VideosCountAllFrames) {
  EXPECT_EQ(size_or_fail(smart_resize_video(24, 1344, 768, kOfficialVideo)), (Size{1344, 768}));
  EXPECT_EQ(size_or_fail(smart_resize_video(25, 1344, 768, kOfficialVideo)), (Size{1312, 736}));
  const auto small = smart_resize_video(2, 31, 64, kOfficialVideo);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().field, "video");
  const auto none = smart_resize_video(0, 64, 64, kOfficialVideo);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::failure);
}

// ---- patches ---------------------------------------------------------------------------------------------------------------------

// The pixel of every value can be told from where it is: red says the column, green the row, blue the frame.
Picture marked(int width, int height, int frame) {
  Picture out{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {x, y, frame}) out.rgb.push_back(static_cast<std::uint8_t>(value));
  return out;
}

int byte_of(float value) { return static_cast<int>(std::lround(value * 127.5f + 127.5f)); }

TEST(Patches, OrderOfRowsAndFeatures) {
  const std::vector<Picture> frames{marked(96, 64, 0), marked(96, 64, 1), marked(96, 64, 2)};  // the third is repeated
  const std::vector<PictureView> views(frames.begin(), frames.end());
  const PatchShape shape;
  const auto rows = cut_patches(views, shape);
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->grid, (PatchGrid{2, 4, 6}));
  std::size_t at = 0;
  for (int t = 0; t < 2; ++t)
    for (int group_y = 0; group_y < 2; ++group_y)
      for (int group_x = 0; group_x < 3; ++group_x)
        for (int patch = 0; patch < 4; ++patch)
          for (int channel = 0; channel < 3; ++channel)
            for (int f = 0; f < 2; ++f)
              for (int y = 0; y < 16; ++y)
                for (int x = 0; x < 16; ++x) {
                  const int column = group_x * 32 + patch % 2 * 16 + x, row = group_y * 32 + patch / 2 * 16 + y,
                            frame = std::min(2 * t + f, 2);
                  ASSERT_EQ(byte_of(rows->values.at(at++)), channel == 0 ? column : channel == 1 ? row : frame);
                }
  EXPECT_EQ(at, rows->values.size());
}

TEST(Patches, APictureIsBothFrames) {
  const Picture picture = marked(32, 32, 7);
  const PictureView view(picture);
  const auto rows = cut_patches(std::span(&view, 1), PatchShape{});
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->grid, (PatchGrid{1, 2, 2}));
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(rows->values[i], rows->values[256 + i]);
}

TEST(Patches, RefusesWhatCannotBeCut) {
  const Picture good = grey(64, 32), other = grey(32, 64), odd = grey(48, 32);
  EXPECT_FALSE(cut_patches({}, PatchShape{}).ok());
  for (const std::vector<PictureView>& frames :
       {std::vector<PictureView>{good, other}, {odd}, {PictureView{}}, {PictureView(64, 64, good.rgb)}})
    EXPECT_FALSE(cut_patches(frames, PatchShape{}).ok());
}

TEST(Patches, VideosAreSampledTwiceASecond) {
  Clip clip;
  clip.width = clip.height = 32;
  clip.frames = 25;
  for (int i = 0; i < clip.frames; ++i) clip.rgb.insert(clip.rgb.end(), clip.frame_bytes(), static_cast<std::uint8_t>(i));
  const auto frames = sample_frames(clip);
  ASSERT_EQ(frames.size(), 3u);
  const auto rows = prepare_video(frames, {PatchShape{}, kOfficialVideo});
  ASSERT_TRUE(rows.ok()) << rows.error().text();
  EXPECT_EQ(rows->grid, (PatchGrid{2, 2, 2}));  // four frames of 32x32 are the least number of pixels
  EXPECT_EQ(byte_of(rows->values.front()), 0);
  EXPECT_EQ(byte_of(rows->values.at(256)), 12);
  EXPECT_EQ(byte_of(rows->values.back()), 24);
}

// ---- configuration ---------------------------------------------------------------------------------------------------------------

TEST(VisionConfig, DemoModel) {
  const auto config = parse_vision_config(demo_text("config.json"));
  ASSERT_TRUE(config.ok()) << config.error().text();
  const Json json = Json::parse(demo_text("config.json"));
  const Json& vision = json.at("vision_config");
  EXPECT_EQ(config->deepstack_blocks, vision.at("deepstack_visual_indexes").get<std::vector<int>>());
  EXPECT_EQ(config->table_side * config->table_side, vision.at("num_position_embeddings").get<std::int64_t>());
  EXPECT_EQ(config->pads.image, json.at("image_token_id").get<int>());
  for (const char* file : {"preprocessor_config.json", "video_preprocessor_config.json"}) {
    const auto limits = parse_resize_limits(demo_text(file), file, config->patch);
    ASSERT_TRUE(limits.ok()) << limits.error().text();
    EXPECT_EQ(limits->min_pixels, Json::parse(demo_text(file)).at("size").at("shortest_edge").get<std::int64_t>());
  }
}

TEST(VisionConfig, RefusesWhatItCannotCompute) {
  const auto refused = [](const char* key, const Json& value) {
    Json json = Json::parse(demo_text("config.json"));
    if (value.is_null())
      json["vision_config"].erase(key);
    else
      json["vision_config"][key] = value;
    const auto config = parse_vision_config(json.dump());
    ASSERT_FALSE(config.ok()) << key << " = " << value;
    EXPECT_EQ(config.error().code, ErrorCode::model);
    EXPECT_NE(config.error().message.find(key), std::string::npos) << config.error().text();
  };
  for (const char* key :
       {"depth", "hidden_size", "num_heads", "intermediate_size", "out_hidden_size", "patch_size", "num_position_embeddings"}) {
    refused(key, nullptr);
    refused(key, 0);
    refused(key, -5);
  }
  refused("hidden_size", 66);
  refused("out_hidden_size", 64);
  refused("num_position_embeddings", 65);
  refused("spatial_merge_size", 4);
  refused("temporal_patch_size", 1);
  refused("hidden_act", "gelu");
  refused("in_channels", 4);
  refused("deepstack_visual_indexes", {1, 0});
  refused("deepstack_visual_indexes", {0, 0});
  refused("deepstack_visual_indexes", {0, 3});
  refused("deepstack_visual_indexes", {-1});
  EXPECT_FALSE(parse_vision_config("").ok());
  EXPECT_FALSE(parse_vision_config("[]").ok());
  EXPECT_FALSE(parse_vision_config("{}").ok());
}

TEST(VisionConfig, RefusesOtherPreprocessing) {
  const auto limits = [](const char* key, const Json& value) {
    Json json = Json::parse(demo_text("preprocessor_config.json"));
    json[key] = value;
    return parse_resize_limits(json.dump(), "preprocessor_config.json", PatchShape{});
  };
  for (const auto& [key, value] : {std::pair<const char*, Json>("patch_size", 14),
                                   {"merge_size", 1},
                                   {"temporal_patch_size", 1},
                                   {"image_mean", {0.48, 0.45, 0.4}},
                                   {"image_std", {0.5, 0.5, 0.26}},
                                   {"size", {{"shortest_edge", 10}}},
                                   {"size", {{"shortest_edge", 100}, {"longest_edge", 10}}},
                                   {"size", 5},
                                   {"size", {{"shortest_edge", 0}, {"longest_edge", 10}}}}) {
    const auto parsed = limits(key, value);
    ASSERT_FALSE(parsed.ok()) << key << " = " << value;
    EXPECT_EQ(parsed.error().code, ErrorCode::model);
    EXPECT_NE(parsed.error().message.find("preprocessor_config.json"), std::string::npos);
  }
  const auto older = parse_resize_limits(R"({"min_pixels": 3136, "max_pixels": 12845056})", "preprocessor_config.json", PatchShape{});
  ASSERT_TRUE(older.ok()) << older.error().text();
  EXPECT_EQ(older->min_pixels, 3136);
  EXPECT_FALSE(parse_resize_limits("nonsense", "preprocessor_config.json", PatchShape{}).ok());
  EXPECT_FALSE(parse_resize_limits("{}", "preprocessor_config.json", PatchShape{}).ok());
}

}  // namespace
}  // namespace tritium
