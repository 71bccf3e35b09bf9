// Random numbers against golden/dit/rng, and what runs make of them against golden/dit/trajectory: initial noise, condition anchors,
// Euler steps, the kept parts of a retake. Everything is compared by bit pattern where the references are deterministic.
#include "support/golden.h"

#include "base/torch_generator.h"
#include "sampler/euler.h"
#include "sampler/noise.h"
#include "sampler/retake.h"
#include "sampler/schedule.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace tritium {
namespace {

using Json = nlohmann::json;
using Floats = std::vector<float>;

double different_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return static_cast<double>(std::max(a.size(), b.size()));
  double wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) wrong += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  return wrong;
}

void expect_bits(const std::string& name, std::span<const float> ours, std::span<const float> want) {
  golden::expect_within(name + " values that differ", different_bits(ours, want), 0);
}

template <class T>
T value_or_fail(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.error().text();
  return result.ok() ? std::move(result).value() : T{};
}

Floats normal(TorchGenerator& generator, std::size_t count) {
  Floats out(count);
  generator.normal(out);
  return out;
}

Floats normal_bf16(TorchGenerator& generator, std::size_t count) {
  Floats out(count);
  generator.normal_bf16(out);
  return out;
}

// What follows a prefix; nothing when the text does not begin with it.
std::optional<std::string> after(const std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

// "1x24x7" -> {1, 24, 7}; empty when there is anything but numbers and single separators.
std::vector<std::size_t> numbers_in(const std::string& text, char separator) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    const std::string number = text.substr(at, end - at);
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return {};
    out.push_back(std::stoul(number));
    at = end + 1;
  }
  return out;
}

// "<dims>.f32", ".f32_scalar", ".bf16" or ".f32_then_bf16"; nothing for another kind.
std::optional<Floats> draw_of_kind(std::uint64_t seed, std::size_t count, const std::string& kind) {
  TorchGenerator generator(seed, kind == "f32_scalar" ? TorchGenerator::Variant::scalar : TorchGenerator::Variant::simd);
  if (kind == "bf16") return normal_bf16(generator, count);
  if (kind != "f32" && kind != "f32_scalar" && kind != "f32_then_bf16") return std::nullopt;
  Floats out = normal(generator, count);
  if (kind == "f32_then_bf16")
    for (float& value : out) value = bf16_to_f32(f32_to_bf16(value));
  return out;
}

// The draw that a key "s<seed>.<what>" names; nothing when it is of no known kind.
std::optional<Floats> draw_of(const std::string& key) {
  const std::size_t dot = key.find('.');
  const auto seed = numbers_in(after(key.substr(0, dot), "s").value_or(""), ' ');
  if (dot == std::string::npos || seed.size() != 1) return std::nullopt;
  const std::string what = key.substr(dot + 1);
  TorchGenerator generator(seed[0]);
  Floats out;
  if (const auto count = after(what, "uniform_f32_")) {
    out.resize(std::stoul(*count));
    for (float& value : out) value = generator.uniform();
    return out;
  }
  if (const auto counts = after(what, "chain_")) {
    for (const std::size_t count : numbers_in(*counts, '_')) {
      const Floats part = normal(generator, count);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }
  const std::size_t end = what.find('.');
  const auto dims = numbers_in(what.substr(0, end), 'x');
  if (dims.empty() || end == std::string::npos) return std::nullopt;
  return draw_of_kind(seed[0], std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>()), what.substr(end + 1));
}

bool check_draw(const std::string& key, const Floats& want) {
  const auto ours = draw_of(key);
  if (ours) expect_bits("rng " + key, *ours, want);
  return ours.has_value();
}

struct PipeCase {
  std::uint64_t seed;
  VideoLatentShape video;
  AudioLatentShape audio;
};

PipeCase pipe_case(const Json& pipe, const golden::Tensors& file) {
  PipeCase out;
  out.seed = pipe.at("seed").get<std::uint64_t>();
  out.video = {static_cast<int>(file.shape("pipe.diffsynth_f32.video")[1]), pipe.at("latent_t").get<int>(), pipe.at("latent_h").get<int>(),
               pipe.at("latent_w").get<int>()};
  out.audio = {static_cast<int>(file.shape("pipe.diffsynth_f32.audio")[1]), pipe.at("audio_t").get<int>()};
  return out;
}

VideoLatentShape shape_of(const std::vector<std::int64_t>& dims) {  // [1, channels, frames, height, width]
  return {static_cast<int>(dims[1]), static_cast<int>(dims[2]), static_cast<int>(dims[3]), static_cast<int>(dims[4])};
}

// ComfyUI draws audio as [dim, channel, time].
Floats comfy_order(const Floats& audio, const AudioLatentShape& shape) {
  const auto dim = static_cast<std::size_t>(shape.dim), length = static_cast<std::size_t>(shape.length);
  Floats out(audio.size());
  for (std::size_t c = 0; c < kAudioChannels; ++c)
    for (std::size_t d = 0; d < dim; ++d)
      for (std::size_t i = 0; i < length; ++i) out[(d * kAudioChannels + c) * length + i] = audio[(c * dim + d) * length + i];
  return out;
}

// The part of a draw [channels, drawn, plane] that lies in the first `kept` frames.
Floats leading_frames(const Floats& draw, std::size_t channels, std::size_t drawn, std::size_t kept, std::size_t plane) {
  Floats out;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto from = draw.begin() + static_cast<std::ptrdiff_t>(c * drawn * plane);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(kept * plane));
  }
  return out;
}

// "pipe.keyframe_noise_nkf<K>_<f32|bf16>": what each of K keyframes gets.
bool check_keyframe_noise(const std::string& key, const PipeCase& pipe, const golden::Tensors& file) {
  const auto tail = after(key, "pipe.keyframe_noise_nkf");
  const bool f32 = key.ends_with("_f32");
  if (!tail || (!f32 && !key.ends_with("_bf16"))) return false;
  const std::size_t keyframes = std::stoul(*tail);
  const VideoLatentShape shape = shape_of(file.shape(key));
  if (f32) {
    const std::vector<VideoLatentShape> conditions(keyframes, shape);
    const Floats rows = value_or_fail(draw_condition_noise(NoiseMode::diffsynth, pipe.seed, pipe.video.frames, conditions));
    const Floats one = value_or_fail(patchify_video(shape, file.f32(key)));
    Floats want;
    for (std::size_t k = 0; k < keyframes; ++k) want.insert(want.end(), one.begin(), one.end());
    expect_bits("rng " + key, rows, want);
    return true;
  }
  TorchGenerator generator(pipe.seed);
  const auto drawn = static_cast<std::size_t>(pipe.video.frames) + keyframes;
  const auto plane = static_cast<std::size_t>(shape.height * shape.width), channels = static_cast<std::size_t>(shape.channels);
  const Floats whole = normal_bf16(generator, channels * drawn * plane);
  expect_bits("rng " + key, leading_frames(whole, channels, drawn, static_cast<std::size_t>(shape.frames), plane), file.f32(key));
  return true;
}

// diffusers is no mode of ours, but its draws exercise one generator over many calls: conditions, video, audio rows.
bool check_diffusers(const std::string& key, const PipeCase& pipe, const golden::Tensors& file) {
  if (!key.starts_with("pipe.diffusers_")) return false;
  const std::string prefix = key.substr(0, key.find('.', key.find('.') + 1) + 1);
  std::vector<std::string> order;
  for (int k = 0; file.has(prefix + "cond_noise_" + std::to_string(k)); ++k) order.push_back(prefix + "cond_noise_" + std::to_string(k));
  order.push_back(prefix + "video");
  order.push_back(prefix + "audio_rows");
  if (std::find(order.begin(), order.end(), key) == order.end()) return false;
  TorchGenerator generator(pipe.seed);
  for (const std::string& draw : order) {
    const Floats want = file.f32(draw);
    const Floats ours = normal(generator, want.size());
    if (draw == key) expect_bits("rng " + key, ours, want);
  }
  return true;
}

bool check_pipe(const std::string& key, const PipeCase& pipe, const golden::Tensors& file) {
  const auto noise = [&](NoiseMode mode) { return draw_initial_noise(mode, pipe.seed, pipe.video, pipe.audio); };
  const Floats want = file.f32(key);
  if (key == "pipe.diffsynth_f32.video" || key == "pipe.sglang.video" || key == "pipe.comfyui.video") {
    for (const NoiseMode mode : {NoiseMode::diffsynth, NoiseMode::sglang, NoiseMode::comfyui})
      expect_bits("rng " + key, noise(mode).video, want);
  } else if (key == "pipe.diffsynth_f32.audio") {
    expect_bits("rng " + key, noise(NoiseMode::diffsynth).audio, want);
  } else if (key == "pipe.diffsynth_bf16.video" || key == "pipe.diffsynth_bf16.audio") {
    TorchGenerator generator(pipe.seed);
    expect_bits("rng " + key, normal_bf16(generator, want.size()), want);
  } else if (key == "pipe.sglang.audio_rows") {
    expect_bits("rng " + key, value_or_fail(patchify_audio(pipe.audio, noise(NoiseMode::sglang).audio)), want);
  } else if (key == "pipe.comfyui.audio") {
    expect_bits("rng " + key, comfy_order(noise(NoiseMode::comfyui).audio, pipe.audio), want);
  } else if (key == "pipe.comfyui_cond_rows") {
    VideoLatentShape condition = pipe.video;
    condition.frames = 1;
    const auto count = static_cast<std::size_t>(file.shape(key)[0] / condition.rows());
    const std::vector<VideoLatentShape> conditions(count, condition);
    expect_bits("rng " + key, value_or_fail(draw_condition_noise(NoiseMode::comfyui, pipe.seed, pipe.video.frames, conditions)), want);
  } else {
    return check_keyframe_noise(key, pipe, file) || check_diffusers(key, pipe, file);
  }
  return true;
}

TEST(GoldenRng, EveryDraw) {
  const golden::Tensors file("dit/rng.safetensors");
  const PipeCase pipe = pipe_case(golden::json("dit/rng.json").at("pipe"), file);
  ASSERT_FALSE(file.names().empty());
  for (const std::string& key : file.names())
    EXPECT_TRUE(key.starts_with("pipe.") ? check_pipe(key, pipe, file) : check_draw(key, file.f32(key))) << key << " is not tested";
}

TEST(GoldenRng, EngineWords) {
  const Json file = golden::json("dit/rng.json");
  for (const auto& [seed, parts] : file.at("mt19937").items()) {
    for (const auto& [part, words] : parts.items()) {
      const auto from = after(part, "w");  // "w623_to_626"; otherwise "first8"
      ASSERT_TRUE(from || part.starts_with("first")) << part;
      TorchGenerator generator(std::stoull(seed));
      for (std::size_t skip = from ? std::stoul(*from) : 0; skip > 0; --skip) generator.next_word();
      double wrong = 0;
      for (const Json& word : words) wrong += generator.next_word() != word.get<std::uint32_t>();
      golden::expect_within("rng words of seed " + seed + " " + part, wrong, 0);
    }
  }
}

// ---- complete runs ---------------------------------------------------------------------------------------------------------------

Floats part_of(const Floats& all, std::size_t index, std::size_t parts) {
  const auto size = static_cast<std::ptrdiff_t>(all.size() / parts);
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(index) * size;
  return {from, from + size};
}

struct Trajectory {
  std::string name;
  std::uint64_t seed = 0;
  std::size_t states = 0;  // steps + 1
  VideoLatentShape video;
  AudioLatentShape audio;
  Floats video_states;
  Floats audio_states;
  Schedule video_schedule, audio_schedule;

  [[nodiscard]] Latents state(std::size_t i) const { return {part_of(video_states, i, states), part_of(audio_states, i, states)}; }
};

Trajectory load_run(const std::string& name, const Json& want, const golden::Tensors& file) {
  Trajectory run;
  run.name = name;
  run.seed = want.at("seed").get<std::uint64_t>();
  const auto video = file.shape(name + ".video"), audio = file.shape(name + ".audio");
  run.states = static_cast<std::size_t>(video[0]);
  run.video = shape_of(video);  // the first dimension counts states here
  run.audio = {static_cast<int>(audio[2]), static_cast<int>(audio[3])};
  run.video_states = file.f32(name + ".video");
  run.audio_states = file.f32(name + ".audio");
  const int steps = want.at("steps").get<int>();
  run.video_schedule = value_or_fail(make_schedule(steps, want.at("flow_shift").get<double>()));
  run.audio_schedule = value_or_fail(make_schedule(steps, want.at("audio_flow_shift").get<double>()));
  return run;
}

void expect_start(const Trajectory& run, const Json& want) {
  const Latents noise = draw_initial_noise(NoiseMode::diffsynth, run.seed, run.video, run.audio);
  expect_bits("trajectory " + run.name + " initial video", noise.video, run.state(0).video);
  expect_bits("trajectory " + run.name + " initial audio", noise.audio, run.state(0).audio);
  const auto sigmas = [](const Schedule& s) { return Floats(s.sigmas.begin(), s.sigmas.end() - 1); };
  expect_bits("trajectory " + run.name + " video sigmas", sigmas(run.video_schedule), want.at("sigmas_video").get<Floats>());
  expect_bits("trajectory " + run.name + " audio sigmas", sigmas(run.audio_schedule), want.at("sigmas_audio").get<Floats>());
}

void expect_anchors(const Trajectory& run, const std::string& key, const std::vector<VideoLatentShape>& shapes,
                    const std::vector<Floats>& clean, const golden::Tensors& file) {
  Floats rows;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Floats part = value_or_fail(patchify_video(shapes[i], clean[i]));
    rows.insert(rows.end(), part.begin(), part.end());
  }
  const Floats noise = value_or_fail(draw_condition_noise(NoiseMode::diffsynth, run.seed, run.video.frames, shapes));
  expect_bits("trajectory " + run.name + " " + key, value_or_fail(mix_condition_anchors(rows, noise)), file.f32(run.name + "." + key));
}

void expect_keyframe_anchors(const Trajectory& run, const golden::Tensors& file) {
  const std::string key = run.name + ".keyframe_clean";
  if (!file.has(key)) return;
  VideoLatentShape shape = shape_of(file.shape(key));
  const Floats all = file.f32(key);
  const auto count = static_cast<std::size_t>(shape.frames), plane = static_cast<std::size_t>(shape.height * shape.width);
  shape.frames = 1;
  std::vector<Floats> clean(count);
  for (std::size_t at = 0; at < all.size(); at += plane) {
    Floats& frame = clean[at / plane % count];
    frame.insert(frame.end(), all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + plane));
  }
  expect_anchors(run, "keyframe_cond_anchor", std::vector<VideoLatentShape>(count, shape), clean, file);
}

// One clean latent per kind of reference: "clean_image", "clean_video" (also of a video with sound), "clean_audio", "clean_video_audio".
void expect_reference_anchors(const Trajectory& run, const Json& want, const golden::Tensors& file) {
  if (!want.contains("refs") || want.at("refs").is_null()) return;
  std::vector<VideoLatentShape> shapes;
  std::vector<Floats> clean;
  Floats sound;
  for (const Json& reference : want.at("refs")) {
    const std::string kind = reference.at("kind").get<std::string>();
    if (kind != "audio") {
      const std::string key = run.name + (kind == "image" ? ".clean_image" : ".clean_video");
      shapes.push_back(shape_of(file.shape(key)));
      clean.push_back(file.f32(key));
    }
    if (kind == "audio" || kind == "video_audio") {
      const std::string key = run.name + (kind == "audio" ? ".clean_audio" : ".clean_video_audio");
      const auto dims = file.shape(key);
      const Floats rows = value_or_fail(patchify_audio({static_cast<int>(dims[1]), static_cast<int>(dims[2])}, file.f32(key)));
      sound.insert(sound.end(), rows.begin(), rows.end());
    }
  }
  if (file.has(run.name + ".ref_visual_anchor")) expect_anchors(run, "ref_visual_anchor", shapes, clean, file);
  if (file.has(run.name + ".ref_audio_anchor"))
    expect_bits("trajectory " + run.name + " ref_audio_anchor", sound, file.f32(run.name + ".ref_audio_anchor"));
}

// Where the velocities of the run are recorded (noise-ward), each state follows from the one before.
void expect_steps(const Trajectory& run, const golden::Tensors& file) {
  if (!file.has(run.name + ".vel_video")) return;
  Latents velocity{file.f32(run.name + ".vel_video"), file.f32(run.name + ".vel_audio")};
  for (float& v : velocity.video) v = -v;
  for (float& v : velocity.audio) v = -v;
  for (std::size_t i = 0; i + 1 < run.states; ++i) {
    Latents x = run.state(i);
    const Latents v{part_of(velocity.video, i, run.states - 1), part_of(velocity.audio, i, run.states - 1)};
    const auto done = euler_step(x, v, run.video_schedule, run.audio_schedule, static_cast<int>(i));
    ASSERT_TRUE(done.ok()) << done.error().text();
    const std::string name = "trajectory " + run.name + " step " + std::to_string(i);
    expect_bits(name + " video", x.video, run.state(i + 1).video);
    expect_bits(name + " audio", x.audio, run.state(i + 1).audio);
  }
}

// The kept part of a retake needs no model: it must follow the recorded states.
void expect_retake(const Trajectory& run, const Json& want, const golden::Tensors& file) {
  if (!want.contains("video_mask")) return;
  const ClipLength clip = value_or_fail(clip_length_from_frames(want.at("num_frames").get<int>()));
  std::vector<FrameRegion> frames;
  std::vector<SecondsRegion> seconds;
  for (const Json& region : want.at("frame_regions_to_retake"))
    frames.push_back({region[0].get<std::int64_t>(), region[1].get<std::int64_t>()});
  for (const Json& region : want.at("seconds_regions_to_retake")) seconds.push_back({region[0].get<double>(), region[1].get<double>()});
  RetakeMasks masks{value_or_fail(video_retake_mask(frames, clip, clip.frames)),
                    value_or_fail(audio_retake_mask(seconds, clip, clip.audio_latents))};
  EXPECT_EQ(masks.video, want.at("video_mask").get<RetakeMask>()) << run.name;
  EXPECT_EQ(masks.audio, want.at("audio_mask").get<RetakeMask>()) << run.name;
  const Latents clean{file.f32(run.name + ".input_latents_video"), file.f32(run.name + ".input_latents_audio")};
  auto retake = Retake::make(run.video, run.audio, masks, clean, draw_initial_noise(NoiseMode::diffsynth, run.seed, run.video, run.audio));
  ASSERT_TRUE(retake.ok()) << retake.error().text();
  for (std::size_t i = 0; i < run.states; ++i) {
    const Latents recorded = run.state(i);
    Latents x = recorded;
    ASSERT_TRUE(retake->hold(x, run.video_schedule.sigmas[i], run.audio_schedule.sigmas[i]).ok());
    const std::string name = "trajectory " + run.name + " kept part of state " + std::to_string(i);
    golden::expect_within(name + " video", golden::max_abs_diff(x.video, recorded.video), 1e-6);
    golden::expect_within(name + " audio", golden::max_abs_diff(x.audio, recorded.audio), 1e-6);
  }
}

TEST(GoldenTrajectory, EverythingButTheModel) {
  const Json cases = golden::json("dit/trajectory.json");
  const golden::Tensors file("dit/trajectory.safetensors");
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, want] : cases.items()) {
    const Trajectory run = load_run(name, want, file);
    ASSERT_EQ(run.states, want.at("steps").get<std::size_t>() + 1) << name;
    expect_start(run, want);
    expect_keyframe_anchors(run, file);
    expect_reference_anchors(run, want, file);
    expect_steps(run, file);
    expect_retake(run, want, file);
  }
}

}  // namespace
}  // namespace tritium
