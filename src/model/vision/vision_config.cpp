#include "model/vision/vision_config.h"

#include "base/try.h"

#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxDimension = 1 << 20;
constexpr std::int64_t kMaxPixels = std::int64_t{1} << 32;

Error bad(std::string_view file, std::string message) {
  return Error{ErrorCode::model, fmt::format("{}: {}", file, message), "", "use the file of the release"};
}
Error bad(std::string message) { return bad("text encoder config.json", std::move(message)); }

Result<void> check_dimensions(const VisionConfig& c) {
  for (const auto& [name, value] : {std::pair("depth", std::int64_t{c.depth}),
                                    {"hidden_size", c.hidden},
                                    {"num_heads", c.heads},
                                    {"intermediate_size", c.ffn},
                                    {"out_hidden_size", c.out_hidden},
                                    {"patch_size", c.patch.side},
                                    {"temporal_patch_size", c.patch.frames},
                                    {"num_position_embeddings", c.table_side}})
    if (value < 1 || value > kMaxDimension) return bad(fmt::format("vision_config: {} is out of range", name));
  if (c.patch.side > 256) return bad(fmt::format("vision_config: patch_size = {} is above 256", c.patch.side));
  if (c.patch.merge != 2 || c.patch.frames != 2)
    return bad(fmt::format("vision_config: spatial_merge_size = {} and temporal_patch_size = {}; only 2 and 2 are known", c.patch.merge,
                           c.patch.frames));
  if (c.hidden % c.heads != 0 || c.head_dim() % 4 != 0)
    return bad(fmt::format("vision_config: hidden_size = {} does not give {} heads whose width is a multiple of 4", c.hidden, c.heads));
  for (std::size_t i = 0; i < c.deepstack_blocks.size(); ++i)
    if (c.deepstack_blocks[i] < (i == 0 ? 0 : c.deepstack_blocks[i - 1] + 1) || c.deepstack_blocks[i] >= c.depth)
      return bad(fmt::format("vision_config: deepstack_visual_indexes must ascend within 0..{}", c.depth - 1));
  return {};
}

// Keys that may be absent; where they are there, they must have the known value.
Result<void> check_fixed(const json& document, std::string_view file, std::initializer_list<std::pair<const char*, json>> expected) {
  for (const auto& [key, value] : expected)
    if (document.contains(key) && document[key] != value)
      return bad(file, fmt::format("{} = {}; only {} is known", key, document[key].dump(), value.dump()));
  return {};
}

}  // namespace

Result<VisionConfig> parse_vision_config(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("vision_config")) return bad("not a JSON object with 'vision_config'");
  const json& vision = document["vision_config"];
  VisionConfig config;
  std::int64_t positions = 0;
  try {
    config.depth = vision.at("depth");
    config.hidden = vision.at("hidden_size");
    config.heads = vision.at("num_heads");
    config.ffn = vision.at("intermediate_size");
    config.out_hidden = vision.at("out_hidden_size");
    config.patch = {vision.at("patch_size"), vision.at("temporal_patch_size"), vision.at("spatial_merge_size")};
    config.deepstack_blocks = vision.at("deepstack_visual_indexes").get<std::vector<int>>();
    config.pads = {document.at("image_token_id"), document.at("video_token_id")};
    positions = vision.at("num_position_embeddings");
    const std::int64_t text_hidden = document.at("text_config").at("hidden_size");
    if (text_hidden != config.out_hidden)
      return bad(
          fmt::format("vision_config: out_hidden_size = {}, but the text stack has hidden_size = {}", config.out_hidden, text_hidden));
  } catch (const json::exception& e) { return bad(e.what()); }
  if (positions >= 1 && positions <= kMaxDimension) config.table_side = std::llround(std::sqrt(static_cast<double>(positions)));
  if (config.table_side * config.table_side != positions)
    return bad(fmt::format("vision_config: num_position_embeddings = {} is not the square of a number up to 1024", positions));
  TRITIUM_TRY(check_fixed(vision, "text encoder config.json: vision_config", {{"hidden_act", "gelu_pytorch_tanh"}, {"in_channels", 3}}));
  TRITIUM_TRY(check_dimensions(config));
  return config;
}

Result<ResizeLimits> parse_resize_limits(std::string_view text, std::string_view file, const PatchShape& patch) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return bad(file, "not a JSON object");
  const json half = {0.5, 0.5, 0.5};
  TRITIUM_TRY(check_fixed(document, file,
                          {{"patch_size", patch.side},
                           {"temporal_patch_size", patch.frames},
                           {"merge_size", patch.merge},
                           {"image_mean", half},
                           {"image_std", half}}));
  ResizeLimits limits{0, 0, patch.factor(), patch.frames};
  try {
    const bool named = document.contains("size");  // or the older keys beside the others
    limits.min_pixels = named ? document["size"].at("shortest_edge") : document.at("min_pixels");
    limits.max_pixels = named ? document["size"].at("longest_edge") : document.at("max_pixels");
  } catch (const json::exception& e) { return bad(file, e.what()); }
  if (limits.min_pixels < 1 || limits.max_pixels < limits.min_pixels || limits.max_pixels > kMaxPixels)
    return bad(file, fmt::format("between {} and {} pixels: expected 1 <= smallest <= largest <= {}", limits.min_pixels, limits.max_pixels,
                                 kMaxPixels));
  return limits;
}

}  // namespace tritium
