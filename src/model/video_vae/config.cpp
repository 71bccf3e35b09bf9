#include "model/video_vae/config.h"

#include "base/try.h"

#include <fmt/format.h>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tritium::video_vae {
namespace {

using nlohmann::json;

constexpr const char* kConfigFile = "video_vae/config.json";
constexpr const char* kSourceFile = "video_vae/source/config.json";
constexpr int kMaxLevels = 16;
constexpr int kMaxWidth = 65536;  // channels or features; keeps every product of two of them in 64 bits
constexpr int kMaxRatio = 256;

int product(const std::vector<int>& factors) { return std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>()); }

// Typed access to one JSON object. The first problem is kept; later reads then return zeros.
class Reader {
 public:
  Reader(json object, std::string file, std::string prefix = {})
      : object_(std::move(object)), file_(std::move(file)), prefix_(std::move(prefix)) {}

  int integer(const char* key, std::int64_t low, std::int64_t high) { return to_integer(key, find(key), low, high); }

  // A number in (0, high].
  double positive(const char* key, double high) {
    const json& value = find(key);
    const double number = value.is_number() ? value.get<double>() : 0.0;
    if (!(number > 0 && number <= high)) reject(key, value, fmt::format("expected a number above 0, at most {:g}", high));
    return number;
  }

  std::vector<int> integers(const char* key, std::size_t count, std::int64_t low, std::int64_t high) {
    std::vector<int> out;
    for (const json& element : array(key, count)) out.push_back(to_integer(key, element, low, high));
    return out;
  }

  std::vector<float> numbers(const char* key, std::size_t count, double low) {
    std::vector<float> out;
    for (const json& element : array(key, count)) {
      const double number = element.is_number() ? element.get<double>() : std::numeric_limits<double>::quiet_NaN();
      if (!(number > low && std::abs(number) < 1e6)) reject(key, element, fmt::format("expected finite numbers above {:g}", low));
      out.push_back(static_cast<float>(number));
    }
    return out;
  }

  [[nodiscard]] std::size_t length(const char* key) {
    const json& value = find(key);
    if (!value.is_array() || value.empty() || value.size() > kMaxLevels)
      reject(key, value, fmt::format("expected a list of 1 to {} numbers", kMaxLevels));
    return value.is_array() ? value.size() : 0;
  }

  Reader object(const char* key) {
    const json& value = find(key);
    if (!value.is_object()) reject(key, value, "expected an object");
    return {value.is_object() ? value : json::object(), file_, prefix_ + key + "."};
  }

  // A key that selects a variant of the model: absent or exactly this value.
  void only(const char* key, const json& supported) {
    if (object_.contains(key) && object_[key] != supported) reject(key, object_[key], "only " + supported.dump() + " is supported");
  }
  void enabled(const char* key) {
    if (object_.contains(key) && (object_[key] == 0 || object_[key] == false)) reject(key, object_[key], "only 1 is supported");
  }

  void require(bool holds, const char* key, const std::string& rule) {
    if (!holds) reject(key, find(key), rule);
  }

  [[nodiscard]] Result<void> status() const { return error_; }

 private:
  const json& find(const char* key) {
    static const json absent;
    if (object_.contains(key)) return object_[key];
    if (error_.ok()) error_ = Error{ErrorCode::model, "is missing in " + file_, prefix_ + key, ""};
    return absent;
  }

  const json& array(const char* key, std::size_t count) {
    static const json empty = json::array();
    const json& value = find(key);
    if (value.is_array() && value.size() == count) return value;
    reject(key, value, fmt::format("expected a list of {} numbers", count));
    return empty;
  }

  int to_integer(const char* key, const json& value, std::int64_t low, std::int64_t high) {
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : low - 1;
    if (number >= low && number <= high) return static_cast<int>(number);
    reject(key, value, fmt::format("expected an integer from {} to {}", low, high));
    return 0;
  }

  void reject(const char* key, const json& value, const std::string& rule) {
    if (!error_.ok()) return;
    std::string shown = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (shown.size() > 80) shown = shown.substr(0, 77) + "...";
    error_ = Error{ErrorCode::model, fmt::format("{} in {}: {}", shown, file_, rule), prefix_ + key, ""};
  }

  json object_;
  std::string file_, prefix_;
  Result<void> error_;
};

Result<json> parse_object(std::string_view text, const char* file) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Error{ErrorCode::model, fmt::format("{} is not a JSON object", file), "", "download the file again"};
  return parsed;
}

Result<void> read_source(const json& document, VideoVaeConfig& out) {
  Reader source(document, kSourceFile);
  const std::size_t levels = source.length("ch_mult");
  out.channels = source.integer("ch", 1, kMaxWidth);
  out.channel_factors = source.integers("ch_mult", levels, 1, 256);
  out.space_down = source.integers("space_down", levels, 1, 4);
  out.time_down = source.integers("time_down", levels, 1, 4);
  out.residual_blocks = source.integer("num_res_blocks", 1, 64);
  out.z_channels = source.integer("z_channels", 1, kMaxWidth);
  out.latent_channels = source.integer("embed_dim", 1, kMaxWidth);
  source.integer("in_channels", kPixelChannels, kPixelChannels);
  source.integer("out_ch", kPixelChannels, kPixelChannels);
  TRITIUM_TRY(source.status());

  source.require(out.channels % kNormGroups == 0, "ch", fmt::format("expected a multiple of {}", kNormGroups));
  const auto ratio_fits = [](const std::vector<int>& factors) {
    return std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies<>()) <= kMaxRatio;
  };
  source.require(ratio_fits(out.space_down), "space_down", fmt::format("the product is above {}", kMaxRatio));
  source.require(ratio_fits(out.time_down), "time_down", fmt::format("the product is above {}", kMaxRatio));
  TRITIUM_TRY(source.status());
  source.only("vae_ratio", out.spatial_ratio());
  source.only("vae_ratio_t", out.temporal_ratio());
  source.only("causal_encoder", true);
  source.only("causal_decoder", false);
  source.only("use_3d_conv", true);
  source.only("use_t_isolated_gn", true);
  source.only("use_vit_decoder", true);
  source.only("padding_mode", "reflect");
  source.only("padding_mode_t", nullptr);
  source.only("pixel_norm_type", "imagenet");
  return source.status();
}

Result<void> read_transformer(const json& document, VideoVaeConfig& out) {
  Reader source(document, kSourceFile);
  Reader vit = source.object("vit_decoder_kwargs");
  TRITIUM_TRY(source.status());
  out.heads = vit.integer("heads", 1, 1024);
  out.head_dim = vit.integer("dim_head", 1, 1024);
  out.layers = vit.integer("num_layers", 1, 128);
  out.rope_theta = vit.positive("rope_theta", 1e9);
  out.rope_dim_ratio = vit.positive("rope_dim_ratio", 1.0);
  TRITIUM_TRY(vit.status());
  vit.require(out.hidden() <= kMaxWidth, "heads", fmt::format("heads times dim_head is {}, above {}", out.hidden(), kMaxWidth));
  vit.require(out.rotary_pairs() > 0 && out.rotary_pairs() % 3 == 0, "rope_dim_ratio",
              fmt::format("rotates {} pairs of dimensions, expected a multiple of 3 (time, y and x)", out.rotary_pairs()));
  vit.only("ffn_activation_fn", "silu");
  vit.only("ffn_use_gated", true);
  vit.only("norm_affine", true);
  vit.only("norm_type", "rms_norm");
  vit.only("qk_norm_affine", false);
  vit.only("qk_norm_type", "rms_norm");
  return vit.status();
}

Result<void> read_config(const json& document, VideoVaeConfig& out) {
  Reader config(document, kConfigFile);
  const auto channels = static_cast<std::size_t>(out.latent_channels);
  out.clip_length = config.integer("vae_clip_length", 1, 1024);
  out.token_drop = config.integer("vae_token_drop", 1, 1024);
  out.tile_size = config.integer("vae_tile_size", 1, 8192);
  out.tile_overlap_min = config.integer("vae_tile_overlap_min", 0, 8192);
  out.latents_mean = config.numbers("latents_mean", channels, -1e6);
  out.latents_std = config.numbers("latents_std", channels, 0.0);
  TRITIUM_TRY(config.status());

  const int step = out.spatial_ratio(), tokens = out.temporal().tokens_per_clip();
  const std::string multiple = fmt::format("expected a multiple of {}", step);
  config.require(out.token_drop < tokens, "vae_token_drop", fmt::format("expected less than the {} tokens of one clip", tokens));
  config.require(out.tile_size % step == 0, "vae_tile_size", multiple);
  config.require(out.tile_overlap_min % step == 0, "vae_tile_overlap_min", multiple);
  config.require(out.tile_overlap_min < out.tile_size, "vae_tile_overlap_min",
                 fmt::format("expected less than vae_tile_size {}", out.tile_size));
  config.only("latent_channels", out.latent_channels);
  config.enabled("vae_encoder_tiling");
  config.enabled("vae_decoder_tiling");
  return config.status();
}

}  // namespace

int VideoVaeConfig::rotary_pairs() const { return static_cast<int>(head_dim * rope_dim_ratio) / 2; }
int VideoVaeConfig::spatial_ratio() const { return product(space_down); }
int VideoVaeConfig::temporal_ratio() const { return product(time_down); }

Result<VideoVaeConfig> VideoVaeConfig::parse(std::string_view config_json, std::string_view source_json) {
  TRITIUM_TRY_ASSIGN(const json config, parse_object(config_json, kConfigFile));
  TRITIUM_TRY_ASSIGN(const json source, parse_object(source_json, kSourceFile));
  VideoVaeConfig out;
  TRITIUM_TRY(read_source(source, out));
  TRITIUM_TRY(read_transformer(source, out));
  TRITIUM_TRY(read_config(config, out));
  return out;
}

}  // namespace tritium::video_vae
