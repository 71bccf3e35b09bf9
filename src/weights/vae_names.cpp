#include "weights/vae_names.h"

#include "base/try.h"
#include "weights/names.h"

#include <array>

namespace tritium {
namespace {

// Tensors that tell the prefix, several, so that a file that lacks one is still read and the lack named.
constexpr std::array<std::string_view, 3> kVideoAnchors = {"decoder.proj_out.weight", "decoder.transformer_blocks.0.norm1.weight",
                                                           "post_quant_conv.weight"};
constexpr std::array<std::string_view, 2> kAudioAnchors = {"dec_in_proj.weight", "pre_block.attn.qkv.weight"};
constexpr std::string_view kToQkv = "attn.to_qkv.", kGateUp = "ff.w1.", kEncoderLevel = "encoder.down.";

Error not_that_vae(const char* which, std::string_view anchor) {
  return Error{ErrorCode::model, std::string("this is not the ") + which + ": no tensor '" + std::string(anchor) + "'", "", ""};
}

template <std::size_t N>
std::optional<std::string> prefix_of(const LogicalTensors& tensors, const std::array<std::string_view, N>& anchors) {
  for (const std::string_view anchor : anchors)
    if (auto prefix = prefix_before(tensors, anchor)) return prefix;
  return std::nullopt;
}

void replace_first(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

// The file's name of a parameter, or of the module DiffSynth made of it.
std::string present(const LogicalTensors& tensors, std::string name) {
  if (tensors.find(name) == nullptr && tensors.find(name + ".weight") != nullptr) name += ".weight";
  return name;
}

TensorPlace diffusers_place(const LogicalTensors& tensors, const std::string& prefix, std::int64_t head_dim, const std::string& official) {
  TensorPlace place;
  if (const std::size_t at = official.find(kToQkv); at != std::string::npos) {
    const std::string block = official.substr(0, at), end = official.substr(at + kToQkv.size());
    for (const char* part : {"attn.to_q.", "attn.to_k.", "attn.to_v."})
      place.tensors.push_back(prefix + diffusers_video_vae_name(block + part + end));
    const LogicalTensor* q = tensors.find(place.tensors.front());
    if (q == nullptr || q->shape.empty() || head_dim < 1 || q->shape[0] % head_dim != 0) return place;
    for (std::int64_t head = 0; head < q->shape[0] / head_dim; ++head)
      for (std::int64_t part = 0; part < 3; ++part) place.order.push_back({part * q->shape[0] + head * head_dim, head_dim});
    return place;
  }
  place.tensors.push_back(present(tensors, prefix + diffusers_video_vae_name(official)));
  if (official.find(kGateUp) != std::string::npos)
    if (const LogicalTensor* tensor = tensors.find(place.tensors.front()); tensor != nullptr && !tensor->shape.empty())
      place.order = swapped_halves(tensor->shape[0]);
  return place;
}

}  // namespace

Result<VideoVaeLayout> detect_video_vae_layout(const LogicalTensors& tensors) {
  if (!prefix_of(tensors, kVideoAnchors)) return not_that_vae("video VAE", kVideoAnchors.front());
  return prefix_before(tensors, "decoder.transformer_blocks.0.attn.to_q.weight") ? VideoVaeLayout::diffusers : VideoVaeLayout::official;
}

std::string diffusers_video_vae_name(std::string name) {
  if (name.starts_with(kEncoderLevel)) {
    replace_first(name, "encoder.down.", "encoder.down_blocks.");
    replace_first(name, ".block.", ".resnets.");
    replace_first(name, ".nin_shortcut.", ".conv_shortcut.");
    replace_first(name, ".downsample.conv.", ".downsamplers.0.conv.");
    return name;
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kParts = {{
      {"decoder.x_embedder.", "decoder.proj_in."},
      {".attn.to_out.", ".attn.to_out.0."},
      {".ff.w1.", ".ff.net.0.proj."},
      {".ff.w2.", ".ff.net.2."},
  }};
  for (const auto& [from, to] : kParts) replace_first(name, from, to);
  return name;
}

Naming video_vae_naming(const LogicalTensors& tensors, VideoVaeLayout layout, std::int64_t head_dim) {
  auto copy = std::make_shared<const LogicalTensors>(tensors);
  const std::string prefix = prefix_of(tensors, kVideoAnchors).value_or("");
  if (layout == VideoVaeLayout::diffusers)
    return [copy, prefix, head_dim](const std::string& official) { return diffusers_place(*copy, prefix, head_dim, official); };
  return [copy, prefix](const std::string& official) -> TensorPlace { return {{present(*copy, prefix + official)}, {}}; };
}

Naming audio_vae_naming(const LogicalTensors& tensors) {
  auto copy = std::make_shared<const LogicalTensors>(tensors);
  const std::string prefix = prefix_of(tensors, kAudioAnchors).value_or("");
  return [copy, prefix](const std::string& official) -> TensorPlace {
    std::string name = present(*copy, prefix + official);
    // Modules saved with torch's newer form of weight normalisation.
    if (copy->find(name) == nullptr && name.ends_with(".weight_g"))
      name.replace(name.size() - 8, 8, "parametrizations.weight.original0");
    else if (copy->find(name) == nullptr && name.ends_with(".weight_v"))
      name.replace(name.size() - 8, 8, "parametrizations.weight.original1");
    return {{std::move(name)}, {}};
  };
}

Result<std::shared_ptr<const WeightPart>> open_video_vae(std::shared_ptr<const Checkpoint> checkpoint, std::int64_t head_dim) {
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  TRITIUM_TRY_ASSIGN(const VideoVaeLayout layout, detect_video_vae_layout(tensors));
  Naming naming = video_vae_naming(tensors, layout, head_dim);
  return WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
}

Result<std::shared_ptr<const WeightPart>> open_audio_vae(std::shared_ptr<const Checkpoint> checkpoint) {
  TRITIUM_TRY_ASSIGN(LogicalTensors tensors, LogicalTensors::open(*checkpoint));
  if (!prefix_of(tensors, kAudioAnchors)) return not_that_vae("audio VAE", kAudioAnchors.front());
  Naming naming = audio_vae_naming(tensors);
  return WeightPart::wrap(std::move(checkpoint), std::move(tensors), std::move(naming));
}

}  // namespace tritium
