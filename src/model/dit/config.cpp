#include "model/dit/config.h"

#include "base/try.h"

#include <fmt/format.h>
#include <array>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "", std::move(hint)}; }

int count_blocks(const WeightPart& part, const std::string& prefix) {
  int count = 0;
  while (part.has(fmt::format("{}{}.norm1.weight", prefix, count))) ++count;
  return count;
}

// Collects dimensions from shapes; the first missing or oddly shaped tensor becomes the error.
class ShapeReader {
 public:
  explicit ShapeReader(const WeightPart& part) : part_(part) {}

  std::int64_t dim(const std::string& name, std::size_t index, std::size_t rank) {
    const auto shape = part_.shape(name);
    if (!shape) return fail(fmt::format("tensor '{}' is missing", name));
    if (shape->size() != rank) return fail(fmt::format("tensor '{}' is {}, expected {} dimensions", name, shape_text(*shape), rank));
    if ((*shape)[index] < 1) return fail(fmt::format("tensor '{}' is {}", name, shape_text(*shape)));
    return (*shape)[index];
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::int64_t fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
    return 0;
  }
  const WeightPart& part_;
  std::string problem_;
};

// Compares one dimension with config.json under either of its names.
Result<void> compare(const nlohmann::json& json, std::int64_t value, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number_integer()) return bad(fmt::format("transformer config.json: '{}' is not an integer", key));
    if (found->get<std::int64_t>() != value)
      return bad(fmt::format("transformer config.json says {} = {}, the tensors say {}", key, found->get<std::int64_t>(), value),
                 "the file belongs to another model");
  }
  return {};
}

Result<void> apply_json(const nlohmann::json& json, DitConfig& c) {
  if (!json.is_object()) return bad("transformer config.json is not a JSON object");
  try {
    for (const char* key : {"rope_inv_freq_len", "rope_freq_dim"}) c.rope_frequencies = json.value(key, c.rope_frequencies);
    c.eps = json.value("norm_eps", c.eps);
    for (const char* key : {"qk_norm_eps", "final_norm_eps"})
      if (json.value(key, c.eps) != c.eps)
        return bad(fmt::format("transformer config.json: '{}' differs from norm_eps, which is not supported", key));
    if (const auto patch = json.find("patch_size"); patch != json.end() && *patch != nlohmann::json({1, 2, 2}))
      return bad("transformer config.json: patch_size is not [1, 2, 2]");
  } catch (const nlohmann::json::exception& e) { return bad(std::string("transformer config.json: ") + e.what()); }
  TRITIUM_TRY(compare(json, c.hidden, {"hidden_size"}));
  TRITIUM_TRY(compare(json, c.heads, {"num_attention_heads"}));
  TRITIUM_TRY(compare(json, c.head_dim, {"attention_head_dim"}));
  TRITIUM_TRY(compare(json, c.layers, {"num_layers"}));
  TRITIUM_TRY(compare(json, c.refiner_layers, {"token_refiner_num_layers", "num_refiner_layers"}));
  TRITIUM_TRY(compare(json, c.ffn, {"ffn_hidden_size", "ffn_dim"}));
  TRITIUM_TRY(compare(json, c.text_dim, {"text_dim"}));
  TRITIUM_TRY(compare(json, c.video_features / 4, {"latents_dim", "in_channels"}));
  TRITIUM_TRY(compare(json, c.audio_features, {"audio_latents_dim", "audio_in_channels"}));
  if (c.pruned()) return {};  // the time embedder's dimensions in config.json are those of the full model
  TRITIUM_TRY(compare(json, c.time_input, {"timestep_input_dim", "freq_dim"}));
  TRITIUM_TRY(compare(json, c.time_hidden, {"time_embed_hidden_size", "time_embed_hidden_dim"}));
  return compare(json, c.time_dim, {"time_embed_dim"});
}

}  // namespace

Result<DitConfig> read_dit_config(const WeightPart& part, std::string_view config_json) {
  ShapeReader shapes(part);
  DitConfig c;
  c.layers = count_blocks(part, "blocks.");
  c.refiner_layers = count_blocks(part, "token_refiner.blocks.");
  c.hidden = shapes.dim("video_patch_proj.weight", 0, 2);
  c.video_features = shapes.dim("video_patch_proj.weight", 1, 2);
  c.audio_features = shapes.dim("audio_patch_proj.weight", 1, 2);
  c.text_dim = shapes.dim("condition_proj.weight", 1, 2);
  c.head_dim = shapes.dim("blocks.0.attn.q_norm.weight", 0, 1);
  const std::int64_t inner = shapes.dim("blocks.0.attn.out_proj.weight", 1, 2);
  c.ffn = shapes.dim("blocks.0.mlp.fc2.weight", 1, 2);
  c.time_dim = shapes.dim("blocks.0.adaln_proj.linear.weight", 1, 2);
  if (part.has("adaln_t_table")) {
    c.curve_points = shapes.dim("adaln_t_table", 0, 2);
  } else {
    c.time_input = shapes.dim("time_embedder.proj_in.weight", 1, 2);
    c.time_hidden = shapes.dim("time_embedder.proj_in.weight", 0, 2);
  }
  if (!shapes.problem().empty()) return bad("diffusion transformer: " + shapes.problem());
  if (inner % c.head_dim != 0)
    return bad(fmt::format("diffusion transformer: attention width {} is not a multiple of head_dim {}", inner, c.head_dim));
  if (c.pruned() && c.curve_points < 2) return bad("diffusion transformer: 'adaln_t_table' needs at least two rows");
  if (c.time_input % 2 != 0 || c.video_features % 4 != 0) return bad("diffusion transformer: odd time or video width");
  c.heads = inner / c.head_dim;
  const auto stored = part.shape("rope.inv_freq");
  c.rope_frequencies = stored && stored->size() == 1 ? stored->front() : c.head_dim / 8;
  if (!config_json.empty()) TRITIUM_TRY(apply_json(nlohmann::json::parse(config_json, nullptr, false), c));
  if (c.rope_frequencies < 1 || 6 * c.rope_frequencies > c.head_dim)
    return bad(fmt::format("diffusion transformer: {} rotary frequencies per axis do not fit head_dim {}", c.rope_frequencies, c.head_dim));
  return c;
}

}  // namespace tritium
