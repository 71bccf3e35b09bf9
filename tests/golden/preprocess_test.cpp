// golden/text/preprocess and the sizes of golden/text/shape_cases.json: resizing, scaling and patches, all exact.
#include "media/resample.h"
#include "model/geometry/smart_resize.h"
#include "model/prompt/presentation.h"
#include "pipeline/vision_input.h"
#include "support/golden.h"
#include "support/png.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tritium {
namespace {

using Json = nlohmann::json;

Picture png(const std::string& file) { return golden::read_png_rgb(golden::path("text/preprocess/" + file)); }

// What several pictures or videos give together, as the reference's processor does for one request.
struct Batch {
  std::vector<float> values;
  std::vector<std::vector<std::int64_t>> grids;

  void add(const PatchRows& rows) {
    values.insert(values.end(), rows.values.begin(), rows.values.end());
    grids.push_back({rows.grid.t, rows.grid.h, rows.grid.w});
  }
};

class Case {
 public:
  Case(const Json& json, const golden::Tensors& file) : json_(json), file_(file), name_(json.at("name")) {}

  void run() {
    const std::string kind = json_.at("kind");
    if (kind == "lanczos") return lanczos();
    Batch batch;
    if (kind == "image") {
      for (std::size_t i = 0; i < json_.at("sources").size(); ++i) image(i, batch);
      check(batch, "image_grid_thw");
    } else if (kind == "video") {
      for (std::size_t i = 0; i < json_.at("sources").size(); ++i) video(i, batch);
      check(batch, "video_grid_thw");
    } else {
      ADD_FAILURE() << name_ << ": the test does not know the kind '" << kind << "'";
    }
  }

 private:
  [[nodiscard]] VisionRules rules() const {
    VisionRules out;
    out.patch = {json_.at("patch_size"), json_.at("temporal_patch_size"), json_.at("merge_size")};
    out.limits = {json_.at("min_pixels"), json_.at("max_pixels"), out.patch.factor(), out.patch.frames};
    return out;
  }

  void check_pixels(const std::string& what, const Result<Picture>& ours, std::span<const std::uint8_t> expected) {
    ASSERT_TRUE(ours.ok()) << ours.error().text();
    ASSERT_EQ(ours->rgb.size(), expected.size()) << name_ << " " << what;
    int worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(int{ours->rgb[i]} - int{expected[i]}));
    golden::expect_within("preprocess " + name_ + " " + what + " levels", worst, 0);
  }

  void lanczos() {
    const Json& target = json_.at("resized")[0];
    const Picture source = png(json_.at("sources")[0]), expected = png(target.at("file"));
    ASSERT_EQ(expected.width, target.at("width").get<int>());
    check_pixels("pixels", resample(source, target.at("width"), target.at("height"), ResampleFilter::lanczos), expected.rgb);
  }

  void image(std::size_t i, Batch& batch) {
    const Json& target = json_.at("resized")[i];
    const Picture source = png(json_.at("sources")[i]), expected = png(target.at("file"));
    const auto size = smart_resize_image(source.width, source.height, rules().limits);
    ASSERT_TRUE(size.ok()) << size.error().text();
    EXPECT_EQ(*size, (Size{target.at("width"), target.at("height")})) << name_;
    check_pixels(fmt::format("picture {}", i), resample(source, size->width, size->height, ResampleFilter::bicubic), expected.rgb);
    const auto rows = prepare_image(source, rules());
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    batch.add(*rows);
  }

  void video(std::size_t i, Batch& batch) {
    const Json& target = json_.at("resized")[i];
    const std::string source_key = json_.at("sources")[i];
    const auto bytes_of = [this](const std::string& key) {
      const auto wide = file_.i64(key);
      return std::vector<std::uint8_t>(wide.begin(), wide.end());
    };
    const std::vector<std::uint8_t> source = bytes_of(source_key), expected = bytes_of(target.at("tensor"));
    const auto shape = file_.shape(source_key);
    const std::size_t bytes = source.size() / static_cast<std::size_t>(shape[0]),
                      resized = expected.size() / static_cast<std::size_t>(shape[0]);
    const auto size = smart_resize_video(shape[0], shape[2], shape[1], rules().limits);
    ASSERT_TRUE(size.ok()) << size.error().text();
    EXPECT_EQ(*size, (Size{target.at("width"), target.at("height")})) << name_;
    std::vector<PictureView> frames;
    for (std::size_t f = 0; f < static_cast<std::size_t>(shape[0]); ++f) {
      frames.emplace_back(static_cast<int>(shape[2]), static_cast<int>(shape[1]), std::span(source).subspan(f * bytes, bytes));
      check_pixels(fmt::format("video {} frame {}", i, f), resample(frames.back(), size->width, size->height, ResampleFilter::bicubic),
                   std::span(expected).subspan(f * resized, resized));
    }
    const auto rows = prepare_video(frames, rules());
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    EXPECT_EQ(rows->grid.t * rules().patch.frames, target.at("padded_frames").get<std::int64_t>()) << name_;
    batch.add(*rows);
  }

  // The file has all values, or some rows of them, or the bytes that they were made from.
  void check(const Batch& batch, const std::string& grid_key) {
    EXPECT_EQ(batch.grids, json_.at(grid_key).get<std::vector<std::vector<std::int64_t>>>()) << name_;
    const auto shape = json_.at("pixel_values_shape").get<std::vector<std::size_t>>();
    ASSERT_EQ(batch.values.size(), shape[0] * shape[1]) << name_;
    std::vector<float> ours = batch.values, expected;
    if (json_.contains("tensor_rows")) {
      ours.clear();
      for (const std::size_t row : json_.at("rows").get<std::vector<std::size_t>>())
        ours.insert(ours.end(), batch.values.begin() + static_cast<std::ptrdiff_t>(row * shape[1]),
                    batch.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * shape[1]));
      expected = file_.f32(json_.at("tensor_rows"));
    } else if (json_.contains("tensor_u8")) {
      for (const std::int64_t byte : file_.i64(json_.at("tensor_u8"))) expected.push_back((static_cast<float>(byte) - 127.5f) / 127.5f);
    } else {
      expected = file_.f32(json_.at("tensor"));
    }
    golden::expect_within("preprocess " + name_ + " values", golden::max_abs_diff(ours, expected), 0);
  }

  const Json& json_;
  const golden::Tensors& file_;
  std::string name_;
};

TEST(GoldenPreprocess, EveryCaseIsExact) {
  const Json cases = golden::json("text/preprocess/cases.json").at("cases");
  const golden::Tensors file("text/preprocess/preprocess.safetensors");
  ASSERT_FALSE(cases.empty());
  for (const Json& one : cases) Case(one, file).run();
}

// The limits of the release, for which the size cases were made.
ResizeLimits official_limits(const std::string& name) {
  const auto limits = parse_resize_limits(golden::json("text/qwen/" + name).dump(), name, PatchShape{});
  EXPECT_TRUE(limits.ok()) << limits.error().text();
  return limits.ok() ? *limits : ResizeLimits{};
}

Result<Size> resized(const Json& one, const ResizeLimits& limits) {
  if (one.contains("num_frames")) return smart_resize_video(one.at("num_frames"), one.at("width"), one.at("height"), limits);
  return smart_resize_image(one.at("width"), one.at("height"), limits);
}

TEST(GoldenPreprocess, SmartResizeIsExact) {
  const Json file = golden::json("text/shape_cases.json");
  int parts = 0;
  for (const auto& [part, entries] : file.items()) {
    if (part.find("smart_resize") == std::string::npos) continue;
    ++parts;
    const ResizeLimits limits = official_limits(part.starts_with("video") ? "video_preprocessor_config.json" : "preprocessor_config.json");
    int wrong = 0;
    for (const Json& one : entries) {
      const auto size = resized(one, limits);
      const bool right = one.contains("error") ? !size.ok() && size.error().code == ErrorCode::usage
                                               : size.ok() && *size == Size{one.at("result_width"), one.at("result_height")};
      EXPECT_TRUE(right) << part << " " << one;
      wrong += !right;
    }
    EXPECT_FALSE(entries.empty()) << part;
    golden::expect_within(fmt::format("{}: wrong among {}", part, entries.size()), wrong, 0);
  }
  EXPECT_GE(parts, 2);
}

// Which frames of a clip are shown to the vision tower: every frame of this clip says its number.
TEST(GoldenPreprocess, SampledFramesAreExact) {
  const Json file = golden::json("text/shape_cases.json");
  for (const Json& one : file.at("video_sampling_24_to_2fps")) {
    Clip clip;
    clip.width = clip.height = 1;
    clip.frames = one.at("frames");
    for (int i = 0; i < clip.frames; ++i)
      for (const int byte : {i % 256, i / 256, 0}) clip.rgb.push_back(static_cast<std::uint8_t>(byte));
    std::vector<int> indices;
    for (const PictureView& frame : sample_frames(clip)) indices.push_back(frame.rgb[0] + 256 * frame.rgb[1]);
    EXPECT_EQ(indices, one.at("indices").get<std::vector<int>>()) << one;
  }
  EXPECT_FALSE(file.at("video_sampling_24_to_2fps").empty());
}

// The grids that whole requests give with the official sizes.
TEST(GoldenPreprocess, GridsOfPreparedReferences) {
  const Json file = golden::json("text/presentation_cases.json");
  const ResizeLimits image = official_limits("preprocessor_config.json"), video = official_limits("video_preprocessor_config.json");
  int checked = 0;
  for (const Json& one : file.at("cases")) {
    if (one.at("task") != "ref2va_pipeline") continue;
    const Json& input = one.at("input");
    std::vector<std::vector<std::int64_t>> images, videos;
    for (const Json& block : input.at("blocks")) {
      const std::string type = block.at("type");
      if (type == "audio") continue;
      const std::int64_t width = block.at("prepared_size_wh")[0], height = block.at("prepared_size_wh")[1];
      const int frames = type == "image" ? 0 : sampled_frame_count(block.at("prepared_frames"));
      const auto size = type == "image" ? smart_resize_image(width, height, image) : smart_resize_video(frames, width, height, video);
      ASSERT_TRUE(size.ok()) << size.error().text();
      const PatchShape patch;
      (type == "image" ? images : videos)
          .push_back({type == "image" ? 1 : (frames + 1) / 2, size->height / patch.side, size->width / patch.side});
    }
    const auto expected = [&](const char* key) {
      const Json& grids = input.at(key);
      return grids.is_null() ? std::vector<std::vector<std::int64_t>>{} : grids.get<std::vector<std::vector<std::int64_t>>>();
    };
    EXPECT_EQ(images, expected("expected_image_grid_thw")) << one.at("name");
    EXPECT_EQ(videos, expected("expected_video_grid_thw")) << one.at("name");
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace tritium
