// Samplers, decoders, and nodes that compute values.
#include "server/comfy/evaluator.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium::server::comfy {
namespace {

using Values = std::vector<Value>;

// The choices besides euler and simple are refused by the table.
void check_sampler(NodeInputs& in, const std::string& name) {
  if (name == "res_multistep")
    in.note("sampler_name", name, "euler", "the only sampler here; both follow the same equation, step by step in another way");
}

void check_denoise(NodeInputs& in) {
  if (const double denoise = in.number("denoise"); denoise != 1 && !in.failed())
    in.refuse("denoise", fmt::format("{} is not offered; allowed is 1", denoise));
}

void check_cfg(NodeInputs& in) {
  if (const double cfg = in.number("cfg"); cfg != 1 && !in.failed())
    in.refuse("cfg", fmt::format("{} is not offered: the model is distilled and knows no guidance; allowed is 1", cfg));
}

// What a sampler makes; everything that has to agree is compared here.
std::optional<Values> generate(NodeInputs& in, ModelValue model, const ModelValue& schedule, ConditioningValue positive, LatentValue latent,
                               Generation out, int copies) {
  if (latent.made) in.refuse("latent_image", "is the result of another sampler; allowed is an empty latent of an H3 node");
  if (positive.zeroed) in.refuse("positive", "was zeroed; link the prompt");
  if (model.video_shift != schedule.video_shift || model.audio_shift != schedule.audio_shift)
    in.refuse("sigmas", "the scheduler's model and the guider's have other shifts; put MiniMaxH3SigmaShift before both");
  if (positive.has_pictures() && positive.width &&
      (*positive.width != latent.width || *positive.height != latent.height || *positive.length != latent.length))
    in.refuse("latent_image", fmt::format("is {}x{} with {} frames; the conditioning was made for {}x{} with {}", latent.width,
                                          latent.height, latent.length, *positive.width, *positive.height, *positive.length));
  if (in.failed()) return std::nullopt;
  out.sampler = in.node().id;
  out.model = std::move(model);
  out.positive = std::move(positive);
  out.latent = latent;
  latent.node = in.node().id;
  latent.made = std::make_shared<Generation>(std::move(out));
  return Values(static_cast<std::size_t>(copies), latent);
}

std::optional<Values> ksampler(NodeInputs& in) {
  auto model = in.link<ModelValue>("model");
  auto positive = in.link<ConditioningValue>("positive");
  in.link<ConditioningValue>("negative");
  auto latent = in.link<LatentValue>("latent_image");
  check_sampler(in, in.text("sampler_name"));
  in.text("scheduler");
  check_cfg(in);
  check_denoise(in);
  Generation out;
  out.seed = in.seed("seed");
  out.steps = in.integer("steps");
  out.seed_node = out.steps_node = in.node().id;
  out.seed_input = "seed";
  if (!model || !positive || !latent || in.failed()) return std::nullopt;
  return generate(in, *model, *model, std::move(*positive), std::move(*latent), std::move(out), 1);
}

std::optional<Values> sampler_custom(NodeInputs& in) {
  const auto noise = in.link<NoiseValue>("noise");
  auto guider = in.link<GuiderValue>("guider");
  in.link<SamplerValue>("sampler");
  const auto sigmas = in.link<SigmasValue>("sigmas");
  auto latent = in.link<LatentValue>("latent_image");
  if (!noise || !guider || !sigmas || !latent || in.failed()) return std::nullopt;
  Generation out;
  out.seed = noise->seed;
  out.steps = sigmas->steps;
  out.seed_node = noise->node;
  out.steps_node = sigmas->node;
  return generate(in, std::move(guider->model), sigmas->model, std::move(guider->positive), std::move(*latent), std::move(out), 2);
}

std::optional<Values> basic_scheduler(NodeInputs& in) {
  auto model = in.link<ModelValue>("model");
  in.text("scheduler");
  const std::int64_t steps = in.integer("steps");
  check_denoise(in);
  if (!model) return std::nullopt;
  return Values{SigmasValue{std::move(*model), steps, in.node().id}};
}

std::optional<Values> guider(NodeInputs& in, const char* conditioning) {
  auto model = in.link<ModelValue>("model");
  auto positive = in.link<ConditioningValue>(conditioning);
  if (in.node().class_type == "CFGGuider") {
    in.link<ConditioningValue>("negative");
    check_cfg(in);
  }
  if (!model || !positive) return std::nullopt;
  return Values{GuiderValue{std::move(*model), std::move(*positive)}};
}

std::optional<Values> separate(NodeInputs& in) {
  auto latent = in.link<LatentValue>("av_latent");
  if (!latent) return std::nullopt;
  if (!latent->pictures || !latent->sound) in.refuse("av_latent", "was separated before");
  LatentValue video = *latent, audio = std::move(*latent);
  video.sound = audio.pictures = false;
  return Values{std::move(video), std::move(audio)};
}

std::optional<LatentValue> sampled(NodeInputs& in, bool pictures) {
  auto latent = in.link<LatentValue>("samples");
  in.link<VaeValue>("vae");
  if (!latent) return std::nullopt;
  if (!latent->made) in.refuse("samples", "is empty; link the result of a sampler");
  if (pictures ? !latent->pictures : !latent->sound) in.refuse("samples", pictures ? "holds only sound" : "holds only pictures");
  return latent;
}

std::optional<Values> decode_pictures(NodeInputs& in) {
  const auto latent = sampled(in, true);
  if (in.node().class_type == "VAEDecodeTiled")
    for (const char* each : {"tile_size", "overlap", "temporal_size", "temporal_overlap"}) in.integer(each);
  if (!latent) return std::nullopt;
  return Values{PicturesValue{latent->made, in.node().id}};
}

std::optional<Values> decode_sound(NodeInputs& in) {
  const auto latent = sampled(in, false);
  if (!latent) return std::nullopt;
  return Values{SoundValue{latent->made, in.node().id}};
}

std::optional<Values> create_video(NodeInputs& in) {
  const auto video = combine(in, "fps");
  in.text("bit_depth");
  in.text("color_space");
  in.text("codec");
  if (!video) return std::nullopt;
  return Values{*video};
}

std::optional<Values> video_components(NodeInputs& in) {
  const auto value = in.linked("video", true);
  if (!value) return std::nullopt;
  const auto* file = std::get_if<FileValue>(&*value);
  if (file == nullptr || file->kind != ReferenceInput::Kind::video) {
    in.refuse("video", "needs a video from LoadVideo");
    return std::nullopt;
  }
  TrackValue pictures{*file}, sound{*file};
  sound.video.kind = ReferenceInput::Kind::audio;
  return Values{pictures, sound, 24.0, std::string("8"), std::string("sRGB")};
}

// The sizes of ComfyUI's node: whole multiples nearest to the wanted area.
std::optional<Values> select_resolution(NodeInputs& in) {
  const std::string ratio = in.text("aspect_ratio");
  const double megapixels = in.number("megapixels");
  const auto multiple = static_cast<double>(in.integer("multiple"));
  if (in.failed()) return std::nullopt;
  const double w = std::stod(ratio), h = std::stod(ratio.substr(ratio.find(':') + 1));
  const double scale = std::sqrt(megapixels * 1024 * 1024 / (w * h));
  const auto side = [&](double part) { return static_cast<std::int64_t>(std::nearbyint(part * scale / multiple) * multiple); };
  return Values{side(w), side(h)};
}

std::optional<Values> math_expression(NodeInputs& in) {
  const std::string expression = in.text("expression");
  std::map<std::string, Number> names;
  for (const std::string& name : in.series("values")) names[name.substr(name.rfind('.') + 1)] = in.any_number(name);
  if (in.failed()) return std::nullopt;
  const auto out = evaluate_expression(expression, names);
  if (!out.ok()) {
    in.refuse("expression", out.error().message);
    return std::nullopt;
  }
  const double real = as_double(*out);
  if (std::abs(real) > 9e15) {
    in.refuse("expression", fmt::format("the result {} is too large", real));
    return std::nullopt;
  }
  return Values{real, static_cast<std::int64_t>(real), real != 0};
}

std::optional<Values> switch_node(NodeInputs& in) {
  const bool on = in.boolean("switch");
  const std::string wanted = on ? "on_true" : "on_false", other = on ? "on_false" : "on_true";
  const std::string& taken = in.node().input(wanted) != nullptr || in.node().input(other) == nullptr ? wanted : other;
  const Json* given = in.node().input(taken);
  if (given == nullptr || as_link(*given)) {
    auto value = in.linked(taken, true);
    if (!value) return std::nullopt;
    return Values{std::move(*value)};
  }
  if (given->is_boolean()) return Values{given->get<bool>()};
  if (given->is_string()) return Values{given->get<std::string>()};
  const Number number = in.any_number(taken);
  return std::visit([](auto n) { return Values{n}; }, number);
}

}  // namespace

std::optional<VideoValue> combine(NodeInputs& in, const std::string& rate) {
  const auto pictures = in.link<PicturesValue>("images");
  const double fps = in.number(rate);
  std::optional<SoundValue> sound;
  if (in.node().input("audio") != nullptr) sound = in.link<SoundValue>("audio");
  if (!in.failed() && fps != 24)
    in.refuse(rate, fmt::format("{} is not offered: the model makes 24 frames per second; allowed is 24", fps));
  if (!pictures || in.failed()) return std::nullopt;
  if (sound && sound->made->sampler != pictures->made->sampler) in.refuse("audio", "is the sound of another clip");
  if (!sound) in.note("audio", "none", "the clip's own", "a clip is always made with its sound");
  return VideoValue{pictures->made, pictures->node, sound ? sound->node : std::string()};
}

std::optional<Values> run_sampling(NodeInputs& in) {
  const std::string& type = in.node().class_type;
  if (type == "KSampler") return ksampler(in);
  if (type == "SamplerCustomAdvanced") return sampler_custom(in);
  if (type == "BasicScheduler") return basic_scheduler(in);
  if (type == "BasicGuider") return guider(in, "conditioning");
  if (type == "CFGGuider") return guider(in, "positive");
  if (type == "RandomNoise") return Values{NoiseValue{in.seed("noise_seed"), in.node().id}};
  const std::string name = in.text("sampler_name");  // KSamplerSelect
  check_sampler(in, name);
  return Values{SamplerValue{name, in.node().id}};
}

std::optional<Values> run_decoding(NodeInputs& in) {
  const std::string& type = in.node().class_type;
  if (type == "LTXVSeparateAVLatent") return separate(in);
  if (type == "VAEDecodeAudio") return decode_sound(in);
  if (type == "CreateVideo") return create_video(in);
  if (type == "GetVideoComponents") return video_components(in);
  return decode_pictures(in);
}

std::optional<Values> run_values(NodeInputs& in) {
  const std::string& type = in.node().class_type;
  if (type == "PrimitiveInt") return Values{in.integer("value")};
  if (type == "PrimitiveFloat") return Values{in.number("value")};
  if (type == "PrimitiveBoolean") return Values{in.boolean("value")};
  if (type == "ResolutionSelector") return select_resolution(in);
  if (type == "ComfyMathExpression") return math_expression(in);
  if (type == "ComfySwitchNode") return switch_node(in);
  return Values{in.text("value")};
}

NodeFunction function_of(const std::string& class_type) {
  static const std::map<std::string, NodeFunction> all{
      {"UNETLoader", run_loader},
      {"CLIPLoader", run_loader},
      {"VAELoader", run_loader},
      {"LoraLoaderModelOnly", run_loader},
      {"LoadImage", run_loader},
      {"LoadVideo", run_loader},
      {"LoadAudio", run_loader},
      {"CLIPTextEncode", run_h3},
      {"ConditioningZeroOut", run_h3},
      {"EmptyMiniMaxH3LatentAV", run_h3},
      {"MiniMaxH3ImageToVideo", run_h3},
      {"MiniMaxH3ReferenceToVideo", run_h3},
      {"MiniMaxH3AddGuide", run_h3},
      {"MiniMaxH3TextEncoderOnlyReference", run_h3},
      {"MiniMaxH3SigmaShift", run_h3},
      {"EasyCache", run_h3},
      {"KSampler", run_sampling},
      {"KSamplerSelect", run_sampling},
      {"BasicScheduler", run_sampling},
      {"RandomNoise", run_sampling},
      {"BasicGuider", run_sampling},
      {"CFGGuider", run_sampling},
      {"SamplerCustomAdvanced", run_sampling},
      {"LTXVSeparateAVLatent", run_decoding},
      {"VAEDecode", run_decoding},
      {"VAEDecodeTiled", run_decoding},
      {"VAEDecodeAudio", run_decoding},
      {"CreateVideo", run_decoding},
      {"GetVideoComponents", run_decoding},
      {"PrimitiveInt", run_values},
      {"PrimitiveFloat", run_values},
      {"PrimitiveBoolean", run_values},
      {"PrimitiveString", run_values},
      {"PrimitiveStringMultiline", run_values},
      {"ResolutionSelector", run_values},
      {"ComfyMathExpression", run_values},
      {"ComfySwitchNode", run_values},
  };
  const auto found = all.find(class_type);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace tritium::server::comfy
