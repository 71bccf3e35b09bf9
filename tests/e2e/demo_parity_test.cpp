// The demonstration model against its trainer's float32 results (models/demo/eval/reference): every stage from the stored noise on.
#include "e2e/demo_stages.h"
#include "sampler/schedule.h"
#include "support/golden.h"

#include "base/torch_generator.h"
#include "model/geometry/patchify.h"

#include <gtest/gtest.h>
#include <cmath>
#include <filesystem>

namespace tritium {
namespace {

using Floats = std::vector<float>;

constexpr double kLatentError = 1e-3;  // relative L2
constexpr double kTextError = 1e-4;    // relative L2
constexpr double kPictureDb = 45;      // PSNR of 8-bit frames
constexpr double kSoundDb = 40;        // signal to error

// Prints the measured decibels beside the bound.
void expect_decibels(const std::string& what, double decibels, double least) {
  std::printf("demo   %-60s %.1f dB (at least %.0f)\n", what.c_str(), decibels, least);
  EXPECT_GE(decibels, least) << what;
}

double decibels(double signal, double error) { return error == 0 ? 999 : 10 * std::log10(signal / error); }

double psnr(const std::vector<std::uint8_t>& ours, const std::vector<std::int64_t>& want) {
  if (ours.size() != want.size()) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) sum += std::pow(static_cast<double>(ours[i]) - static_cast<double>(want[i]), 2);
  return decibels(255.0 * 255.0, sum / static_cast<double>(ours.size()));
}

double signal_to_error(const Floats& ours, const Floats& want) {
  if (ours.size() != want.size()) return 0;
  double signal = 0, error = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    signal += std::pow(static_cast<double>(want[i]), 2);
    error += std::pow(static_cast<double>(ours[i]) - static_cast<double>(want[i]), 2);
  }
  return decibels(signal, error);
}

// The trainer draws video and sound, each in latent order, from one generator.
Latents trainer_noise(std::uint64_t seed, const Plan& plan) {
  const VideoLatentShape video{plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width};
  const AudioLatentShape audio{plan.audio_dim, plan.audio_latents};
  TorchGenerator generator(seed);
  Latents out{Floats(static_cast<std::size_t>(video.elements())), Floats(static_cast<std::size_t>(audio.elements()))};
  generator.normal(out.video);
  generator.normal(out.audio);
  return out;
}

// The velocity at the first level: an evaluation whose step has length 1 ends at noise + velocity.
Latents first_velocity(const demo::Stages& demo, Plan plan, const Conditioning& conditioning, const Latents& noise) {
  plan.steps = 1;
  plan.video_sigmas = plan.audio_sigmas = {1, 0};
  Latents end = demo::require(denoise(*demo.dit, plan, conditioning, noise, nullptr, {})).latents;
  for (std::size_t i = 0; i < end.video.size(); ++i) end.video[i] -= noise.video[i];
  for (std::size_t i = 0; i < end.audio.size(); ++i) end.audio[i] -= noise.audio[i];
  return end;
}

void check(demo::Stages& demo, const nlohmann::json& about) {
  const std::string name = about.at("file").get<std::string>(), prompt = about.at("prompt").get<std::string>();
  const Checkpoint file = demo::require(Checkpoint::open(demo::folder() / "eval/reference" / name));
  const auto stored = [&](const char* key) { return demo::require(file.read_f32(key)); };

  const Presentation presentation = demo::require(present_t2va(*demo.tokenizer, prompt));
  const Floats ids = stored("prompt_ids");  // exact in float32: the vocabulary is small
  EXPECT_EQ(std::vector<std::int32_t>(ids.begin(), ids.end()), presentation.ids) << prompt;

  Request request;
  request.prompt = prompt;
  request.width = about.at("width").get<int>();
  request.height = about.at("height").get<int>();
  request.frames = about.at("frames").get<int>();
  request.steps = about.at("steps").get<int>();
  const Plan plan = demo.plan(request);
  EXPECT_EQ(plan.video_shift, about.at("sigma_shift").at("video").get<double>());
  EXPECT_EQ(plan.audio_shift, about.at("sigma_shift").at("audio").get<double>());

  const Conditioning conditioning = demo.encode(prompt);
  golden::expect_within(name + " text embeddings", golden::rel_l2(conditioning.text, stored("text_embeddings")), kTextError);

  const Latents noise{stored("noise_video"), stored("noise_audio")};
  const Latents drawn = trainer_noise(about.at("seed").get<std::uint64_t>(), plan);
  golden::expect_within(name + " video noise from the seed", golden::max_abs_diff(drawn.video, noise.video), 0);
  golden::expect_within(name + " audio noise from the seed", golden::max_abs_diff(drawn.audio, noise.audio), 0);

  const Latents velocity = first_velocity(demo, plan, conditioning, noise);
  const VideoLatentShape video{plan.latent_channels, plan.latent_frames, plan.latent_height, plan.latent_width};
  golden::expect_within(name + " first video velocity",
                        golden::rel_l2(demo::require(patchify_video(video, velocity.video)), stored("step0_video_velocity")), kLatentError);
  golden::expect_within(
      name + " first audio velocity",
      golden::rel_l2(demo::require(patchify_audio({plan.audio_dim, plan.audio_latents}, velocity.audio)), stored("step0_audio_velocity")),
      kLatentError);

  const Latents latents = demo::require(denoise(*demo.dit, plan, conditioning, noise, nullptr, {})).latents;
  golden::expect_within(name + " final video latents", golden::rel_l2(latents.video, stored("latents_video")), kLatentError);
  golden::expect_within(name + " final audio latents", golden::rel_l2(latents.audio, stored("latents_audio")), kLatentError);

  const Clip clip = demo.decode(plan, latents);
  const Floats frames = stored("frames"), waveform = stored("waveform");
  EXPECT_EQ(file.find("frames")->shape, (std::vector<std::int64_t>{clip.frames, clip.height, clip.width, 3}));
  expect_decibels(name + " frames", psnr(clip.rgb, {frames.begin(), frames.end()}), kPictureDb);
  const auto half = waveform.begin() + static_cast<std::ptrdiff_t>(waveform.size() / 2);
  expect_decibels(name + " left channel", signal_to_error(clip.left, {waveform.begin(), half}), kSoundDb);
  expect_decibels(name + " right channel", signal_to_error(clip.right, {half, waveform.end()}), kSoundDb);
}

TEST(DemoParity, EveryStageFollowsTheTrainer) {
  demo::Stages demo;
  const auto references = demo::json("eval/reference/reference.json");
  ASSERT_FALSE(references.empty());
  for (const auto& about : references) check(demo, about);
}

}  // namespace
}  // namespace tritium
