#include "model/audio_vae/config.h"

#include "base/files.h"
#include "base/try.h"

#include <fmt/format.h>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tritium::audio_vae {
namespace {

using nlohmann::json;

constexpr int kMaxList = 16;      // stages, branches or steps
constexpr int kMaxWidth = 65536;  // channels or features
constexpr int kMaxKernel = 255;
constexpr int kMaxRatio = 65536;  // samples per latent

// What the official files leave out: the released 32 kHz model (spec/vae.md appendix B).
constexpr int kDefaultEncoderDim = 64, kDefaultLatentDim = 2048, kDefaultHeads = 8;
const json& default_resblock_kernels() {
  static const json value = {3, 7, 11};
  return value;
}
// 5 -> 9, 2 -> 4, 4 -> 8, 8 -> 16: twice the rate, made odd for an odd rate so that the padding comes out whole.
int default_kernel_size(int rate) { return 2 * rate - rate % 2; }

// The keys of both files under one roof. The first problem is kept; later reads then return harmless values.
class Reader {
 public:
  Reader(json config, json arguments) : config_(std::move(config)), arguments_(std::move(arguments)) {}

  // `alias` is the key's name in metadata.json; `fallback` is taken when neither file has the key (null = required).
  int integer(const char* key, const char* alias, int low, int high, const json& fallback = nullptr) {
    return to_integer(key, find(key, alias, fallback), low, high);
  }

  std::vector<int> integers(const char* key, int low, int high, const json& fallback = nullptr) {
    return to_integers(key, find(key, key, fallback), low, high);
  }

  std::vector<std::vector<int>> lists(const char* key, int low, int high, const json& fallback) {
    std::vector<std::vector<int>> out;
    for (const json& element : checked_list(key, find(key, key, fallback))) out.push_back(to_integers(key, element, low, high));
    return out;
  }

  std::vector<float> numbers(const char* key, std::size_t count, double low) {
    const json& value = find(key, key, nullptr);
    std::vector<float> out;
    if (!value.is_array() || value.size() != count) {
      reject(key, value, fmt::format("expected a list of {} numbers", count));
      return out;
    }
    for (const json& element : value) {
      const double number = element.is_number() ? element.get<double>() : std::numeric_limits<double>::quiet_NaN();
      if (!(number > low && std::abs(number) < 1e6)) reject(key, element, fmt::format("expected finite numbers above {:g}", low));
      out.push_back(static_cast<float>(number));
    }
    return out;
  }

  // A key that selects a variant of the model: absent or exactly this value.
  void only(const char* key, const json& supported) {
    for (const json* object : {&config_, &arguments_})
      if (object->contains(key) && (*object)[key] != supported) reject(key, (*object)[key], "only " + supported.dump() + " is supported");
  }

  void require(bool holds, const char* key, const json& value, const std::string& rule) {
    if (!holds) reject(key, value, rule);
  }

  [[nodiscard]] const Result<void>& status() const { return error_; }

 private:
  const json& find(const char* key, const char* alias, const json& fallback) {
    const bool in_config = config_.contains(key), in_arguments = arguments_.contains(alias);
    if (in_config && in_arguments && config_[key] != arguments_[alias])
      reject(key, config_[key], "metadata.json says " + shown(arguments_[alias]));
    if (in_config) return config_[key];
    if (in_arguments) return arguments_[alias];
    if (fallback.is_null() && error_.ok()) error_ = Error{ErrorCode::model, "is missing in audio_vae/config.json", key, ""};
    return fallback;
  }

  const json& checked_list(const char* key, const json& value) {
    static const json empty = json::array();
    if (value.is_array() && !value.empty() && value.size() <= kMaxList) return value;
    reject(key, value, fmt::format("expected a list of 1 to {} entries", kMaxList));
    return empty;
  }

  std::vector<int> to_integers(const char* key, const json& value, int low, int high) {
    std::vector<int> out;
    for (const json& element : checked_list(key, value)) out.push_back(to_integer(key, element, low, high));
    return out;
  }

  int to_integer(const char* key, const json& value, int low, int high) {
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : std::int64_t{low} - 1;
    if (number >= low && number <= high) return static_cast<int>(number);
    reject(key, value, fmt::format("expected an integer from {} to {}", low, high));
    return low;
  }

  static std::string shown(const json& value) {
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() > 80 ? text.substr(0, 77) + "..." : text;
  }

  void reject(const char* key, const json& value, const std::string& rule) {
    if (error_.ok())
      error_ = Error{ErrorCode::model, fmt::format("{} in audio_vae/config.json or metadata.json: {}", shown(value), rule), key, ""};
  }

  json config_, arguments_;
  Result<void> error_;
};

Result<json> parse_object(std::string_view text, const char* file) {
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object())
    return Error{ErrorCode::model, fmt::format("audio_vae/{} is not a JSON object", file), "", "download the file again"};
  return parsed;
}

// The constructor arguments recorded in metadata.json; empty without that file.
Result<json> parse_arguments(std::string_view text) {
  if (text.empty()) return json::object();
  TRITIUM_TRY_ASSIGN(const json document, parse_object(text, "metadata.json"));
  const json* at = &document;
  for (const char* key : {"metadata", "kwargs"}) {
    if (!at->contains(key) || !(*at)[key].is_object())
      return Error{ErrorCode::model, "audio_vae/metadata.json has no object metadata.kwargs", "metadata.kwargs", "download the file again"};
    at = &(*at)[key];
  }
  return *at;
}

double product(const std::vector<int>& factors) { return std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies<>()); }

void read_encoder(Reader& reader, AudioVaeConfig& out) {
  out.encoder_dim = reader.integer("encoder_dim", "encoder_dim", 1, kMaxWidth, kDefaultEncoderDim);
  out.encoder_rates = reader.integers("encoder_rates", 1, 64);
  out.attention_heads = reader.integer("num_attention_heads", "num_attention_heads", 1, 1024, kDefaultHeads);
  out.latent_dim = reader.integer("latent_dim", "latent_dim", 1, kMaxWidth, kDefaultLatentDim);
  out.latent_channels = reader.integer("latent_channels", "vae_latent_channels", 1, kMaxWidth);
  reader.require(out.latent_dim % out.attention_heads == 0, "num_attention_heads", out.attention_heads,
                 fmt::format("expected a divisor of latent_dim {}", out.latent_dim));
  reader.require(product(out.encoder_rates) == product(out.decoder_rates), "encoder_rates", out.encoder_rates,
                 fmt::format("the product differs from that of decoder_rates, {}", product(out.decoder_rates)));
  if (!reader.status().ok()) return;
  const auto channels = static_cast<std::size_t>(out.latent_channels);
  out.latents_mean = reader.numbers("latents_mean", channels, -1e6);
  out.latents_std = reader.numbers("latents_std", channels, 0.0);
}

void read_decoder(Reader& reader, AudioVaeConfig& out) {
  out.decoder_dim = reader.integer("decoder_dim", "decoder_dim", 1, kMaxWidth);
  out.decoder_rates = reader.integers("decoder_rates", 1, 64);
  json kernels = json::array();
  for (const int rate : out.decoder_rates) kernels.push_back(default_kernel_size(rate));
  out.decoder_kernel_sizes = reader.integers("decoder_kernel_sizes", 1, kMaxKernel, kernels);
  out.resblock_kernel_sizes = reader.integers("resblock_kernel_sizes", 1, kMaxKernel, default_resblock_kernels());
  const json dilations(out.resblock_kernel_sizes.size(), json{1, 3, 5});
  out.resblock_dilation_sizes = reader.lists("resblock_dilation_sizes", 1, kMaxKernel, dilations);

  const std::size_t stages = out.decoder_rates.size();
  reader.require(product(out.decoder_rates) <= kMaxRatio, "decoder_rates", out.decoder_rates,
                 fmt::format("the product is above {}", kMaxRatio));
  reader.require(out.decoder_dim % (1 << stages) == 0, "decoder_dim", out.decoder_dim,
                 fmt::format("expected a multiple of {}, since each of the {} stages halves it", 1 << stages, stages));
  reader.require(out.decoder_kernel_sizes.size() == stages, "decoder_kernel_sizes", out.decoder_kernel_sizes,
                 fmt::format("expected {} entries, one per decoder rate", stages));
  for (std::size_t i = 0; i < stages && i < out.decoder_kernel_sizes.size(); ++i) {
    const int beyond = out.decoder_kernel_sizes[i] - out.decoder_rates[i];
    reader.require(beyond >= 0 && beyond % 2 == 0, "decoder_kernel_sizes", out.decoder_kernel_sizes[i],
                   fmt::format("expected the rate {} plus an even number", out.decoder_rates[i]));
  }
  for (const int kernel : out.resblock_kernel_sizes)
    reader.require(kernel % 2 == 1, "resblock_kernel_sizes", kernel, "expected odd numbers");
  reader.require(out.resblock_dilation_sizes.size() == out.resblock_kernel_sizes.size(), "resblock_dilation_sizes",
                 out.resblock_dilation_sizes, fmt::format("expected {} lists, one per resblock kernel", out.resblock_kernel_sizes.size()));
}

}  // namespace

int AudioVaeConfig::samples_per_latent() const { return static_cast<int>(product(decoder_rates)); }

Result<AudioVaeConfig> AudioVaeConfig::parse(std::string_view config_json, std::string_view metadata_json) {
  TRITIUM_TRY_ASSIGN(json config, parse_object(config_json, "config.json"));
  TRITIUM_TRY_ASSIGN(json arguments, parse_arguments(metadata_json));
  Reader reader(std::move(config), std::move(arguments));
  AudioVaeConfig out;
  out.sampling_rate = reader.integer("sampling_rate", "sample_rate", 1, 1000000, 32000);
  read_decoder(reader, out);
  read_encoder(reader, out);
  reader.only("output_channel", kChannels);
  reader.only("decoder_type", "bigvgan");
  reader.only("attn_proj", true);
  if (!reader.status().ok()) return reader.status().error();
  return out;
}

Result<AudioVaeConfig> AudioVaeConfig::read(const std::filesystem::path& folder) {
  TRITIUM_TRY_ASSIGN(const std::string config, read_file(folder / "config.json"));
  const std::filesystem::path metadata_path = folder / "metadata.json";
  std::error_code ignored;
  if (!std::filesystem::exists(metadata_path, ignored)) return parse(config);
  TRITIUM_TRY_ASSIGN(const std::string metadata, read_file(metadata_path));
  return parse(config, metadata);
}

}  // namespace tritium::audio_vae
