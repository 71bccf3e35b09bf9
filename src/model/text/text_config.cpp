#include "model/text/text_config.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

Error bad(std::string message) { return Error{ErrorCode::model, "text encoder config.json: " + std::move(message), "", ""}; }

}  // namespace

Result<TextConfig> parse_text_config(std::string_view text) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("text_config")) return bad("not a JSON object with 'text_config'");
  const auto& json = document["text_config"];
  TextConfig config;
  try {
    config.hidden = json.at("hidden_size");
    config.heads = json.at("num_attention_heads");
    config.kv_heads = json.at("num_key_value_heads");
    config.head_dim = json.at("head_dim");
    config.ffn = json.at("intermediate_size");
    config.vocabulary = json.at("vocab_size");
    const int layers = json.at("num_hidden_layers");
    config.layers = document.value("num_retained_layers", std::min(layers, kTextLayersUsed));
    config.rms_eps = json.value("rms_norm_eps", 1e-6f);
    config.rope_theta = json.value("rope_theta", 5e6);
    config.max_positions = json.value("max_position_embeddings", std::int64_t{262144});
    config.mrope_section = json.at("rope_scaling").at("mrope_section").get<std::array<int, 3>>();
    if (config.layers < 1 || config.layers > layers) return bad(fmt::format("{} retained layers of {}", config.layers, layers));
  } catch (const nlohmann::json::exception& e) { return bad(e.what()); }
  for (const auto& [name, value] : {std::pair("hidden_size", config.hidden),
                                    {"num_attention_heads", config.heads},
                                    {"num_key_value_heads", config.kv_heads},
                                    {"head_dim", config.head_dim},
                                    {"intermediate_size", config.ffn},
                                    {"vocab_size", config.vocabulary}})
    if (value < 1 || value > (1 << 24)) return bad(fmt::format("{} = {} is out of range", name, value));
  if (config.heads % config.kv_heads != 0)
    return bad(fmt::format("{} query heads cannot share {} key/value heads", config.heads, config.kv_heads));
  if (config.head_dim % 2 != 0) return bad(fmt::format("head_dim = {} is odd", config.head_dim));
  return config;
}

}  // namespace tritium
