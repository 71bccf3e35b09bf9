// golden/dit/trajectory: complete runs with our own noise, schedule, model and sampler, from text alone, with keyframes, with references
// and as a retake. Each goes through the pipeline's own loop, and once more through its parts for what lies between them.
#include "support/dit_golden.h"

#include "pipeline/stages.h"
#include "sampler/euler.h"
#include "sampler/noise.h"
#include "sampler/retake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <bit>

namespace tritium {
namespace {

using Json = nlohmann::json;
using Floats = std::vector<float>;

constexpr double kTolerance = 1e-4;      // golden/dit/README.md
constexpr double kKeptTolerance = 1e-6;  // a retake ends exactly on what it keeps

template <class T>
T value_or_fail(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result.ok() ? std::move(result).value() : T{};
}

Floats part_of(const Floats& all, std::size_t index, std::size_t parts) {
  const auto size = static_cast<std::ptrdiff_t>(all.size() / parts);
  return {all.begin() + static_cast<std::ptrdiff_t>(index) * size, all.begin() + static_cast<std::ptrdiff_t>(index + 1) * size};
}

double different_bits(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return static_cast<double>(std::max(a.size(), b.size()));
  double wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) wrong += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return wrong;
}

// One recorded run.
struct Trajectory {
  std::string name;
  Json about;
  std::size_t steps = 0;
  VideoLatentShape video;
  AudioLatentShape audio;
  Schedule video_schedule, audio_schedule;
  Floats text;
  int text_rows = 0;
  Floats video_states, audio_states;  // [steps + 1] states

  [[nodiscard]] Latents state(std::size_t i) const { return {part_of(video_states, i, steps + 1), part_of(audio_states, i, steps + 1)}; }
  [[nodiscard]] std::uint64_t seed() const { return about.at("seed").get<std::uint64_t>(); }
  [[nodiscard]] std::vector<Modality> text_tags() const {
    return std::vector<Modality>(static_cast<std::size_t>(text_rows), Modality::text);
  }
  // What the description says under a key; `absent` for a missing or null entry.
  template <class T>
  [[nodiscard]] T given(const char* key, T absent) const {
    const auto found = about.find(key);
    return found == about.end() || found->is_null() ? absent : found->get<T>();
  }
};

Trajectory load_run(const std::string& name, const Json& about, const golden::Tensors& file) {
  Trajectory run;
  run.name = name;
  run.about = about;
  run.steps = about.at("steps").get<std::size_t>();
  run.video = golden::video_shape(file.shape(name + ".video"));
  const auto audio = file.shape(name + ".audio");
  run.audio = {static_cast<int>(audio[2]), static_cast<int>(audio[3])};
  run.video_schedule = value_or_fail(make_schedule(static_cast<int>(run.steps), about.at("flow_shift").get<double>()));
  run.audio_schedule = value_or_fail(make_schedule(static_cast<int>(run.steps), about.at("audio_flow_shift").get<double>()));
  run.text = file.f32(name + ".prompt_embeds");
  run.text_rows = static_cast<int>(file.shape(name + ".prompt_embeds")[0]);
  run.video_states = file.f32(name + ".video");
  run.audio_states = file.f32(name + ".audio");
  return run;
}

// The plan of a text-to-video run: what the pipeline's loop reads of it.
Plan plan_of(const Trajectory& run) {
  Plan plan;
  plan.steps = static_cast<int>(run.steps);
  plan.seed = run.seed();
  plan.noise = "diffsynth";
  plan.latent_channels = run.video.channels;
  plan.latent_frames = run.video.frames;
  plan.latent_height = run.video.height;
  plan.latent_width = run.video.width;
  plan.audio_dim = run.audio.dim;
  plan.audio_latents = run.audio.length;
  plan.video_sigmas = run.video_schedule.sigmas;
  plan.audio_sigmas = run.audio_schedule.sigmas;
  return plan;
}

void expect_state(const Trajectory& run, const char* loop, std::size_t i, const Latents& ours) {
  const Latents want = run.state(i);
  golden::expect_within(fmt::format("{} {} video state {}", run.name, loop, i), golden::max_abs_diff(ours.video, want.video), kTolerance);
  golden::expect_within(fmt::format("{} {} audio state {}", run.name, loop, i), golden::max_abs_diff(ours.audio, want.audio), kTolerance);
}

// Recorded velocities point to the noise, ours to the data.
void expect_velocity(const Trajectory& run, const golden::Tensors& file, std::size_t step, Latents velocity) {
  if (!file.has(run.name + ".vel_video")) return;
  for (Floats* stream : {&velocity.video, &velocity.audio})
    for (float& v : *stream) v = -v;
  const Floats video = part_of(file.f32(run.name + ".vel_video"), step, run.steps),
               audio = part_of(file.f32(run.name + ".vel_audio"), step, run.steps);
  golden::expect_within(fmt::format("{} video velocity {}", run.name, step), golden::max_abs_diff(velocity.video, video), kTolerance);
  golden::expect_within(fmt::format("{} audio velocity {}", run.name, step), golden::max_abs_diff(velocity.audio, audio), kTolerance);
}

// Condition rows in packed order, made from clean latents and our own noise.
DitRows condition_rows(const Trajectory& run, const golden::Tensors& file) {
  std::vector<VideoLatentShape> shapes;
  DitRows clean;
  const auto add_visual = [&](VideoLatentShape shape, const Floats& latent) {
    const Floats rows = value_or_fail(patchify_video(shape, latent));
    clean.video.insert(clean.video.end(), rows.begin(), rows.end());
    shapes.push_back(shape);
  };
  if (const std::string key = run.name + ".keyframe_clean"; file.has(key)) {
    VideoLatentShape one = golden::video_shape(file.shape(key));
    const auto count = static_cast<std::size_t>(one.frames), plane = static_cast<std::size_t>(one.height * one.width);
    one.frames = 1;
    const Floats all = file.f32(key);  // [1, channels, keyframes, height, width]
    for (std::size_t k = 0; k < count; ++k) {
      Floats frame;
      for (std::size_t at = k * plane; at < all.size(); at += count * plane)
        frame.insert(frame.end(), all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + plane));
      add_visual(one, frame);
    }
  }
  for (const Json& reference : run.given("refs", Json::array())) {
    const std::string kind = reference.at("kind").get<std::string>();
    if (kind != "audio") {
      const std::string key = run.name + (kind == "image" ? ".clean_image" : ".clean_video");
      add_visual(golden::video_shape(file.shape(key)), file.f32(key));
    }
    if (kind == "audio" || kind == "video_audio") {
      const std::string key = run.name + (kind == "audio" ? ".clean_audio" : ".clean_video_audio");
      const auto dims = file.shape(key);
      const Floats rows = value_or_fail(patchify_audio({static_cast<int>(dims[1]), static_cast<int>(dims[2])}, file.f32(key)));
      clean.audio.insert(clean.audio.end(), rows.begin(), rows.end());
    }
  }
  const Floats noise = value_or_fail(draw_condition_noise(NoiseMode::diffsynth, run.seed(), run.video.frames, shapes));
  return {value_or_fail(mix_condition_anchors(clean.video, noise)), std::move(clean.audio)};
}

// Everything besides noise that a run is given.
Conditioning conditioning_of(const Trajectory& run, const golden::Tensors& file) {
  Conditioning out;
  out.text = run.text;
  out.text_tags = run.text_tags();
  const PackingRequest packing = golden::packing_request(run.about, run.video, run.audio.length, out.text_tags);
  out.shapes = {packing.keyframes, packing.references};
  out.rows = condition_rows(run, file);
  out.masks = {run.given("video_mask", RetakeMask{}), run.given("audio_mask", RetakeMask{})};
  if (!out.masks.video.empty()) out.clean.video = file.f32(run.name + ".input_latents_video");
  if (!out.masks.audio.empty()) out.clean.audio = file.f32(run.name + ".input_latents_audio");
  return out;
}

bool keeps_parts(const Conditioning& conditioning) { return !conditioning.masks.video.empty() || !conditioning.masks.audio.empty(); }

class GoldenTrajectoryOfTheModel : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    device_ = value_or_fail(Device::open("CPU", 2));
    ASSERT_TRUE(device_);
    device_->set_fast_kernels(GetParam());
    dit_ = golden::load_dit(*device_, golden::dit_files().front());
  }

  // The production loop: whole, and stopped after each step by plans of one step, so that every state can be compared. (A retake needs
  // the noise of the beginning to the end, so it cannot be stopped.)
  void check_pipeline(const Trajectory& run, const Conditioning& conditioning) {
    const Plan plan = plan_of(run);
    const Latents whole = value_or_fail(denoise(*dit_, plan, conditioning, value_or_fail(initial_noise(plan)), nullptr, {})).latents;
    expect_state(run, "pipeline", run.steps, whole);
    if (keeps_parts(conditioning)) return;
    Latents state = value_or_fail(initial_noise(plan));
    for (std::size_t i = 0; i < run.steps; ++i) {
      Plan one = plan;
      one.steps = 1;
      one.video_sigmas = {plan.video_sigmas[i], plan.video_sigmas[i + 1]};
      one.audio_sigmas = {plan.audio_sigmas[i], plan.audio_sigmas[i + 1]};
      state = value_or_fail(denoise(*dit_, one, conditioning, std::move(state), nullptr, {})).latents;
      expect_state(run, "pipeline", i + 1, state);
    }
    EXPECT_EQ(different_bits(whole.video, state.video), 0) << run.name << ": one call and a call per step differ";
    EXPECT_EQ(different_bits(whole.audio, state.audio), 0) << run.name << ": one call and a call per step differ";
  }

  // The same loop taken apart: velocities, every state, and the kept parts of a retake.
  void check_parts(const Trajectory& run, const Conditioning& conditioning, const golden::Tensors& file) {
    auto layout = make_layout(golden::packing_request(run.about, run.video, run.audio.length, run.text_tags()));
    ASSERT_TRUE(layout.ok()) << layout.error().text();
    std::vector<RowTimesteps> timesteps;
    for (int i = 0; i < static_cast<int>(run.steps); ++i)
      timesteps.push_back(
          value_or_fail(assign_timesteps(*layout, run.video_schedule.time(i), run.audio_schedule.time(i), conditioning.masks)));
    auto dit_run = DitRun::begin(*dit_, std::move(*layout), run.text, conditioning.rows, std::move(timesteps));
    ASSERT_TRUE(dit_run.ok()) << dit_run.error().text();
    Latents state = draw_initial_noise(NoiseMode::diffsynth, run.seed(), run.video, run.audio);
    const auto retake = Retake::make(run.video, run.audio, conditioning.masks, conditioning.clean, state);
    ASSERT_TRUE(retake.ok()) << retake.error().text();
    for (int i = 0; i < static_cast<int>(run.steps); ++i) {
      Latents seen = state;
      ASSERT_TRUE(retake->make_clean(seen).ok());
      const DitRows rows{value_or_fail(patchify_video(run.video, seen.video)), value_or_fail(patchify_audio(run.audio, seen.audio))};
      const DitRows velocity = value_or_fail(dit_run->evaluate(i, rows));
      const Latents direction{value_or_fail(unpatchify_video(run.video, velocity.video)),
                              value_or_fail(unpatchify_audio(run.audio, velocity.audio))};
      expect_velocity(run, file, static_cast<std::size_t>(i), direction);
      ASSERT_TRUE(euler_step(state, direction, run.video_schedule, run.audio_schedule, i).ok());
      ASSERT_TRUE(retake->hold(state, run.video_schedule.next_sigma(i), run.audio_schedule.next_sigma(i)).ok());
      expect_state(run, "parts", static_cast<std::size_t>(i) + 1, state);
    }
    if (!keeps_parts(conditioning)) return;
    Latents kept = state;
    ASSERT_TRUE(retake->make_clean(kept).ok());
    golden::expect_within(run.name + " kept video", golden::max_abs_diff(state.video, kept.video), kKeptTolerance);
    golden::expect_within(run.name + " kept audio", golden::max_abs_diff(state.audio, kept.audio), kKeptTolerance);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Dit> dit_;
};

TEST_P(GoldenTrajectoryOfTheModel, EveryRecordedRun) {
  const Json cases = golden::json("dit/trajectory.json");
  const golden::Tensors file("dit/trajectory.safetensors");
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, about] : cases.items()) {
    const Trajectory run = load_run(name, about, file);
    ASSERT_EQ(run.video_states.size(), (run.steps + 1) * static_cast<std::size_t>(run.video.elements())) << name;
    const Latents noise = draw_initial_noise(NoiseMode::diffsynth, run.seed(), run.video, run.audio);
    golden::expect_within(name + " initial video, values that differ", different_bits(noise.video, run.state(0).video), 0);
    golden::expect_within(name + " initial audio, values that differ", different_bits(noise.audio, run.state(0).audio), 0);
    const Conditioning conditioning = conditioning_of(run, file);
    check_parts(run, conditioning, file);
    check_pipeline(run, conditioning);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GoldenTrajectoryOfTheModel, ::testing::Bool(),
                         [](const auto& kernels) { return kernels.param ? "fast" : "plain"; });

}  // namespace
}  // namespace tritium
