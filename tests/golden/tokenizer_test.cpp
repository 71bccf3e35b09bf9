// golden/text: token ids of every tokenizer case, the added tokens, presentations, timestamps and positions, all exact.
#include "model/prompt/tokenizer.h"
#include "model/prompt/presentation.h"
#include "support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace tritium {
namespace {

const Tokenizer& official() {
  static const Tokenizer tokenizer = [] {
    auto loaded = Tokenizer::load(golden::path("text/qwen"));
    if (!loaded.ok()) {
      std::fprintf(stderr, "golden data: %s\n", loaded.error().text().c_str());
      std::exit(1);
    }
    return std::move(loaded).value();
  }();
  return tokenizer;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

PatchGrid grid_of(const nlohmann::json& thw) { return {thw.at(0), thw.at(1), thw.at(2)}; }

TEST(GoldenTokenizer, EveryCaseIsExact) {
  const auto file = golden::json("text/tokenizer_cases.json");
  std::size_t failures = 0;
  for (const auto& one : file.at("cases")) {
    const auto ids = official().encode(from_hex(one.at("utf8_hex")));
    ASSERT_TRUE(ids.ok()) << ids.error().text();
    const auto expected = one.at("ids").get<std::vector<std::int32_t>>();
    EXPECT_EQ(*ids, expected) << one.at("category") << " " << one.at("text") << " gives " << official().decode(*ids);
    failures += *ids != expected;
  }
  EXPECT_GT(file.at("cases").size(), 0u);
  golden::expect_within(fmt::format("tokenizer: wrong among {} cases", file.at("cases").size()), static_cast<double>(failures), 0);
}

TEST(GoldenTokenizer, AddedTokensHaveTheirIds) {
  const auto file = golden::json("text/tokenizer_cases.json");
  EXPECT_GT(file.at("added_tokens").size(), 0u);
  int highest = 0;
  for (const auto& token : file.at("added_tokens")) {
    EXPECT_EQ(official().token_id(token.at("content").get<std::string>()), token.at("id").get<std::int32_t>()) << token;
    highest = std::max(highest, token.at("id").get<int>());
  }
  EXPECT_EQ(official().vocab_size(), highest + 1);
}

// References of the two ref2va kinds of case. A pipeline case states the prepared size; its grids are in separate lists.
std::vector<PromptReference> references_of(const nlohmann::json& input) {
  std::vector<PromptReference> out;
  std::size_t image = 0, video = 0;
  const bool pipeline = input.contains("blocks");
  for (const auto& given : input.at(pipeline ? "blocks" : "references")) {
    const auto type = given.at("type").get<std::string>();
    PromptReference one;
    one.kind = type == "image"   ? PromptReference::Kind::image
               : type == "audio" ? PromptReference::Kind::audio
                                 : PromptReference::Kind::video;
    if (one.kind == PromptReference::Kind::video) {
      one.frames = given.at(pipeline ? "prepared_frames" : "frames_24fps");
      one.with_sound = type == "video_audio" && (!pipeline || given.at("ref_audio_t").get<int>() > 0);
    }
    if (one.kind != PromptReference::Kind::audio) {
      const bool is_image = one.kind == PromptReference::Kind::image;
      one.grid = grid_of(!pipeline  ? given.at("grid_thw")
                         : is_image ? input.at("expected_image_grid_thw").at(image++)
                                    : input.at("expected_video_grid_thw").at(video++));
    }
    out.push_back(one);
  }
  return out;
}

Result<Presentation> present(const nlohmann::json& one) {
  const auto task = one.at("task").get<std::string>();
  const auto& input = one.at("input");
  const auto prompt = input.at("prompt").get<std::string>();
  if (task == "t2va") return present_t2va(official(), prompt);
  if (task == "fl2va") {
    std::vector<PatchGrid> keyframes;
    for (const auto& frame : input.at("keyframes")) keyframes.push_back(grid_of(frame.at("grid_thw")));
    return present_fl2va(official(), prompt, keyframes);
  }
  if (task == "ref2va" || task == "ref2va_pipeline") return present_ref2va(official(), prompt, references_of(input));
  return Error{ErrorCode::failure, "the test does not know the task '" + task + "'", "", ""};
}

std::vector<std::vector<std::int32_t>> axes(const std::vector<TokenPosition>& positions) {
  std::vector<std::vector<std::int32_t>> out(3);
  for (const TokenPosition& p : positions)
    for (std::size_t axis = 0; axis < 3; ++axis) out[axis].push_back(p[axis]);
  return out;
}

TEST(GoldenPresentation, EveryCaseIsExact) {
  const auto file = golden::json("text/presentation_cases.json");
  std::size_t failures = 0;
  for (const auto& one : file.at("cases")) {
    const auto built = present(one);
    ASSERT_TRUE(built.ok()) << one.at("name") << ": " << built.error().text();
    const bool same = built->ids == one.at("input_ids").get<std::vector<std::int32_t>>() &&
                      built->tags == one.at("text_token_tags").get<std::vector<std::int32_t>>() &&
                      axes(built->positions) == one.at("position_ids").get<std::vector<std::vector<std::int32_t>>>();
    EXPECT_TRUE(same) << one.at("name") << " gives " << official().decode(built->ids);
    failures += !same;
  }
  EXPECT_GT(file.at("cases").size(), 0u);
  golden::expect_within(fmt::format("presentation: wrong among {} cases", file.at("cases").size()), static_cast<double>(failures), 0);
}

TEST(GoldenPresentation, TimestampsAreExact) {
  const auto file = golden::json("text/shape_cases.json");
  for (const auto& one : file.at("video_sampling_24_to_2fps")) {
    const int sampled = sampled_frame_count(one.at("frames"));
    EXPECT_EQ(sampled, static_cast<int>(one.at("indices").size())) << one;
    const auto times = block_times(sampled);
    EXPECT_EQ(times, one.at("block_timestamps").get<std::vector<double>>());
    std::vector<std::string> labels;
    std::transform(times.begin(), times.end(), std::back_inserter(labels), timestamp_label);
    EXPECT_EQ(labels, one.at("labels").get<std::vector<std::string>>());
  }
  EXPECT_GT(file.at("video_sampling_24_to_2fps").size(), 0u);
}

std::vector<PatchGrid> grids(const golden::Tensors& tensors, const std::string& key) {
  std::vector<PatchGrid> out;
  if (!tensors.has(key)) return out;
  const auto values = tensors.i64(key);
  for (std::size_t i = 0; i + 2 < values.size(); i += 3) out.push_back({values[i], values[i + 1], values[i + 2]});
  return out;
}

// The case files of the small language model carry ids, grids and the expected positions.
TEST(GoldenPresentation, PositionsOfReadyMadeIdsAreExact) {
  const auto config = golden::json("text/tiny_qwen3vl.config.json");
  const VisionPads pads{config.at("image_token_id"), config.at("video_token_id")};
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden::path("text"))) {
    if (entry.path().extension() != ".safetensors") continue;
    const golden::Tensors tensors("text/" + entry.path().filename().string());
    if (!tensors.has("position_ids")) continue;
    const auto wide = tensors.i64("input_ids");
    const std::vector<std::int32_t> ids(wide.begin(), wide.end());
    const auto positions = vision_positions(ids, pads, grids(tensors, "image_grid_thw"), grids(tensors, "video_grid_thw"));
    ASSERT_TRUE(positions.ok()) << entry.path() << ": " << positions.error().text();
    std::vector<std::int64_t> flat;
    for (const auto& axis : axes(*positions)) flat.insert(flat.end(), axis.begin(), axis.end());
    EXPECT_EQ(flat, tensors.i64("position_ids")) << entry.path();
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

}  // namespace
}  // namespace tritium
