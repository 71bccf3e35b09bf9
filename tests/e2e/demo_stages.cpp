#include "e2e/demo_stages.h"

#include "base/files.h"

#include <cstdio>
#include <cstdlib>

namespace tritium::demo {

std::filesystem::path folder() { return std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo"; }

nlohmann::json json(const std::string& relative) {
  auto parsed = nlohmann::json::parse(require(read_file(folder() / relative)), nullptr, false);
  if (parsed.is_discarded()) std::exit((std::fprintf(stderr, "demo model: %s is not JSON\n", relative.c_str()), 1));
  return parsed;
}

Stages::Stages(const std::string& device_name)
    : model(require(open_model(folder()))),
      tokenizer(std::make_unique<Tokenizer>(require(Tokenizer::load(model.tokenizer())))),
      weights(require(stage_weights(model, "auto"))),
      device(require(Device::open(device_name))),
      text(std::make_unique<TextModel>(require(TextModel::load(*device, model.text, model.text_config, policy(weights.text.precision))))),
      dit(require(Dit::load(*device, model.dit, model.dit_config, policy(weights.dit.precision)))),
      video(std::make_unique<video_vae::VideoDecoder>(
          require(video_vae::VideoDecoder::load(*device, *model.video_vae, model.video_vae_config, policy(weights.video.precision))))),
      audio(std::make_unique<audio_vae::AudioDecoder>(
          require(audio_vae::AudioDecoder::load(*device, *model.audio_vae, model.audio_vae_config)))) {}

MatrixPolicy Stages::policy(MatrixPrecision precision) const {
  return {precision, device->fast_kernels() ? MatrixForm::packed : MatrixForm::blocks};
}

Plan Stages::plan(const Request& request) const {
  PlanInputs in;
  in.defaults = model.defaults;
  in.text = model.text_config;
  in.dit = model.dit_config;
  in.video_vae = model.video_vae_config;
  in.audio_vae = model.audio_vae_config;
  in.text_weights = weights.text;
  in.dit_weights = weights.dit;
  in.video_weights = weights.video;
  in.audio_weights = weights.audio;
  in.text_tokens = static_cast<int>(require(present_t2va(*tokenizer, request.prompt)).ids.size());
  return require(make_plan(request, in, 0));
}

Conditioning Stages::encode(const std::string& prompt) const {
  return require(encode_text(*text, require(present_t2va(*tokenizer, prompt)), nullptr, {}));
}

Clip Stages::decode(const Plan& plan, const Latents& latents) {
  Clip clip = decode_pictures(plan, latents);
  StereoSound sound = require(decode_audio(*audio, plan, latents, nullptr, {}));
  clip.sample_rate = sound.sample_rate;
  clip.left = std::move(sound.left);
  clip.right = std::move(sound.right);
  return clip;
}

Clip Stages::decode_pictures(const Plan& plan, const Latents& latents) {
  Clip clip;
  clip.width = plan.width;
  clip.height = plan.height;
  const auto keep = [&clip](const std::vector<std::uint8_t>& rgb) -> Result<void> {
    clip.rgb.insert(clip.rgb.end(), rgb.begin(), rgb.end());
    ++clip.frames;
    return {};
  };
  if (const auto done = decode_video(*video, plan, latents, keep, nullptr, {}); !done.ok()) require(Result<int>(done.error()));
  return clip;
}

}  // namespace tritium::demo
