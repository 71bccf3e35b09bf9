// Pictures, videos and sounds as inputs, with the demonstration model, through the engine.
#include "base/files.h"
#include "e2e/demo_stages.h"
#include "media/picture.h"
#include "media/png_writer.h"
#include "media/reader.h"
#include "media/wav_writer.h"
#include "model/audio_vae/encoder.h"
#include "model/video_vae/encoder.h"
#include "support/golden.h"
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace tritium {
namespace {

namespace fs = std::filesystem;
using demo::require;

constexpr int kSide = 96;  // the model's own size
using Color = std::array<double, 3>;

// A disc with a soft edge and a faint shade, as the model's training pictures show it (tools/demo-model/synth.py). Centre and radius in
// picture widths.
Picture draw_disc(Color disc, Color background, double x, double y, double radius = 0.165) {
  Picture out{kSide, kSide, {}};
  for (int row = 0; row < kSide; ++row)
    for (int column = 0; column < kSide; ++column) {
      const double px = column + 0.5 - x * kSide, py = row + 0.5 - y * kSide, r = radius * kSide;
      const double alpha = std::clamp(0.5 - (std::hypot(px, py) - r) / 1.6, 0.0, 1.0);
      const double shade = 1.0 - 0.16 * std::clamp((px + py) / (1.5 * r), -1.2, 1.2);
      for (std::size_t c = 0; c < 3; ++c) {
        const double value = background[c] + alpha * (std::clamp(disc[c] * shade, 0.0, 1.0) - background[c]);
        out.rgb.push_back(static_cast<std::uint8_t>(std::lround(255 * value)));
      }
    }
  return out;
}

constexpr Color kRed{0.86, 0.14, 0.14}, kGreen{0.12, 0.70, 0.26}, kBlue{0.14, 0.28, 0.88}, kYellow{0.96, 0.86, 0.16},
    kWhite{0.95, 0.95, 0.95};

double psnr(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return 10 * std::log10(255.0 * 255.0 / std::max(1e-9, sum / static_cast<double>(a.size())));
}

std::vector<float> latents_of(const fs::path& file, const char* name) { return require(require(Checkpoint::open(file)).read_f32(name)); }

class InputModes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.model = demo::folder();
    engine_ = require(Engine::open(options)).release();
  }
  static void TearDownTestSuite() { delete engine_; }

  fs::path picture(const std::string& name, const Picture& drawn) const {
    const fs::path path = folder_.path() / name;
    EXPECT_TRUE(write_png(path, drawn.rgb, drawn.width, drawn.height).ok());
    return path;
  }

  // Everything a run leaves behind, lossless.
  struct Outcome {
    fs::path video, frames, wav, latents;
  };
  Outcome run(Engine& engine, const Request& request, const std::string& name) const {
    const Outcome out{folder_.path() / (name + ".mp4"), folder_.path() / (name + "_frames"), folder_.path() / (name + ".wav"),
                      folder_.path() / (name + ".safetensors")};
    const auto artifact = engine.generate(request, {out.video, out.frames, out.wav, out.latents});
    EXPECT_TRUE(artifact.ok()) << artifact.error().text();
    return out;
  }
  Outcome run(const Request& request, const std::string& name) const { return run(*engine_, request, name); }

  static Picture frame(const Outcome& outcome, int index) {
    char name[32];
    std::snprintf(name, sizeof name, "frame_%05d.png", index);
    return require(load_picture(outcome.frames / name));
  }

  // A clip of the model's own to work on: 39 frames, two clips of the video VAE.
  Outcome source() const {
    Request request;
    request.prompt = "a red circle moves to the right on a blue background with a low tone";
    request.frames = 39;
    request.seed = 7;
    request.steps = 8;
    return run(request, "source");
  }

  test::TempFolder folder_;
  static inline Engine* engine_ = nullptr;
};

struct Motion {
  const char* prompt;
  Color disc, background;
  double x0, y0, x1, y1;  // centre at the start and at the end
};
const std::array<Motion, 4> kMotions{
    {{"a medium red circle moves to the right on a plain blue background with a low tone", kRed, kBlue, 0.24, 0.5, 0.76, 0.5},
     {"a medium green circle moves to the left on a plain white background with a high tone", kGreen, kWhite, 0.76, 0.5, 0.24, 0.5},
     {"a medium yellow circle moves down on a plain blue background with a middle tone", kYellow, kBlue, 0.5, 0.24, 0.5, 0.76},
     {"a medium white circle moves up on a plain red background with a low tone", kWhite, kRed, 0.5, 0.76, 0.5, 0.24}}};

// The model card's own figure is 22 dB over its prompts; single clips lie around it.
TEST_F(InputModes, KeyframesAreTheEndsOfTheClip) {
  double first = 0, last = 0, both = 0;
  for (std::size_t i = 0; i < kMotions.size(); ++i) {
    const Motion& m = kMotions[i];
    const Picture start = draw_disc(m.disc, m.background, m.x0, m.y0), end = draw_disc(m.disc, m.background, m.x1, m.y1);
    Request request;
    request.prompt = m.prompt;
    request.seed = i;
    request.first_frame = picture("start.png", start);
    const Outcome from_start = run(request, "first");
    first += psnr(frame(from_start, 0).rgb, start.rgb);
    request.last_frame = picture("end.png", end);
    const Outcome with_both = run(request, "both");
    both += (psnr(frame(with_both, 0).rgb, start.rgb) + psnr(frame(with_both, 21).rgb, end.rgb)) / 2;
    // In between it is neither of them.
    EXPECT_LT(psnr(frame(with_both, 11).rgb, start.rgb), psnr(frame(with_both, 0).rgb, start.rgb)) << m.prompt;
    EXPECT_LT(psnr(frame(with_both, 11).rgb, end.rgb), psnr(frame(with_both, 21).rgb, end.rgb)) << m.prompt;
    request.first_frame.clear();
    last += psnr(frame(run(request, "last"), 21).rgb, end.rgb);
  }
  const double count = kMotions.size();
  std::printf("PSNR of keyframes, mean of %g clips: first %.1f dB, last %.1f dB, both %.1f dB\n", count, first / count, last / count,
              both / count);
  EXPECT_GE(first / count, 20);
  EXPECT_GE(last / count, 20);
  EXPECT_GE(both / count, 20);
}

TEST_F(InputModes, ThePictureChangesTheTextRows) {
  Request request;
  request.prompt = kMotions[0].prompt;
  request.seed = 1;
  request.steps = 1;
  request.first_frame = picture("a.png", draw_disc(kRed, kBlue, 0.24, 0.5));
  const Outcome a = run(request, "a");
  request.first_frame = picture("b.png", draw_disc(kGreen, kWhite, 0.6, 0.4));
  const Outcome b = run(request, "b");
  EXPECT_GT(golden::rel_l2(latents_of(a.latents, "video"), latents_of(b.latents, "video")), 1e-3);
  EXPECT_EQ(require(engine_->plan(request)).condition_rows, 9);
}

TEST_F(InputModes, FitKeepsACircleRoundAndAutoTakesThePicturesShape) {
  Picture wide{192, 96, std::vector<std::uint8_t>(192 * 96 * 3, 40)};
  Request request;
  request.prompt = "a circle";
  request.first_frame = picture("wide.png", wide);
  Plan plan = require(engine_->plan(request));
  EXPECT_EQ(plan.width, 2 * plan.height);
  request.width = request.height = kSide;
  plan = require(engine_->plan(request));
  EXPECT_EQ(plan.width, kSide);
  request.aspect = "auto";
  EXPECT_EQ(engine_->plan(request).error().field, "aspect");
}

TEST_F(InputModes, ARetakeKeepsWhatItDoesNotRegenerate) {
  const Outcome given = source();
  Request keep_pictures;
  keep_pictures.prompt = "a green circle moves to the left on a white background with a high tone";
  keep_pictures.seed = 3;
  keep_pictures.steps = 4;
  keep_pictures.sound_for = given.video;
  const Outcome round_trip = run(keep_pictures, "kept");  // every picture kept: the source through encoder and decoder

  // The picture latents are those of the encoder.
  const Clip clip = require(read_clip(given.video));
  demo::Stages stages;
  const auto encoder = require(video_vae::VideoEncoder::load(*stages.device, *stages.model.video_vae, stages.model.video_vae_config));
  const auto encoded = require(encoder.encode_video(video_vae::frames_in_memory(clip.rgb, clip.frames, clip.height, clip.width),
                                                    video_vae::FrameRule::every_frame, video_vae::Posterior::mean));
  EXPECT_LE(golden::max_abs_diff(latents_of(round_trip.latents, "video"), encoded.values), 1e-5);

  Request retake = keep_pictures;
  retake.sound_for.clear();
  retake.retake.video = given.video;
  retake.retake.frames = {{0, 17}};
  const Outcome redone = run(retake, "redone");
  // The second clip of the VAE begins at frame 17, and the cross-fade ends at frame 22.
  for (const int kept : {22, 30, 38}) EXPECT_EQ(frame(redone, kept).rgb, frame(round_trip, kept).rgb) << "frame " << kept;
  for (const int made : {2, 8, 16}) EXPECT_LT(psnr(frame(redone, made).rgb, frame(round_trip, made).rgb), 30) << "frame " << made;

  // No part of the sound was named, so all of it is kept.
  const auto audio_encoder = require(audio_vae::AudioEncoder::load(*stages.device, *stages.model.audio_vae, stages.model.audio_vae_config));
  const auto kept_sound = latents_of(redone.latents, "audio");
  const auto heard = require(audio_encoder.encode(std::span(clip.left).first(52000), std::span(clip.right).first(52000)));
  EXPECT_LE(golden::max_abs_diff(kept_sound, heard.values), 1e-5);
  EXPECT_GT(golden::rel_l2(latents_of(round_trip.latents, "audio"), heard.values), 0.1);  // new sound there

  Request part = retake;
  part.retake.frames.clear();
  part.retake.seconds = {{0.0, 0.5}};
  const Outcome new_start = run(part, "new_start");
  const auto sound = latents_of(new_start.latents, "audio");
  const std::size_t length = sound.size() / 64;
  double kept_difference = 0, made_difference = 0;
  for (std::size_t i = 0; i < sound.size(); ++i)
    (i % length >= 20 ? kept_difference : made_difference) += std::abs(static_cast<double>(sound[i]) - static_cast<double>(kept_sound[i]));
  EXPECT_LE(kept_difference, 1e-3);
  EXPECT_GT(made_difference, 1);
}

TEST_F(InputModes, AVideoForASoundKeepsTheSound) {
  std::vector<float> left, right;
  for (int i = 0; i < 32000; ++i) {
    left.push_back(static_cast<float>(0.4 * std::sin(2 * std::numbers::pi * 200 * i / 32000.0)));
    right.push_back(static_cast<float>(0.1 * std::sin(2 * std::numbers::pi * 400 * i / 32000.0)));
  }
  const fs::path wav = folder_.path() / "tone.wav";
  ASSERT_TRUE(write_wav(wav, left, right, 32000, WavSamples::float32).ok());
  Request request;
  request.prompt = "a red circle moves to the right on a blue background";
  request.seed = 2;
  request.steps = 4;
  request.video_for = wav;
  const Plan plan = require(engine_->plan(request));
  EXPECT_EQ(plan.mode, "video_for_sound");
  EXPECT_EQ(plan.frames, 39);  // one second, raised to the next length
  const Outcome outcome = run(request, "for_sound");
  demo::Stages stages;
  const auto encoder = require(audio_vae::AudioEncoder::load(*stages.device, *stages.model.audio_vae, stages.model.audio_vae_config));
  const auto expected = require(encoder.encode(left, right));
  const auto sound = latents_of(outcome.latents, "audio");
  const auto length = static_cast<std::size_t>(plan.audio_latents);
  double worst = 0;
  for (std::size_t row = 0; row < 64; ++row)
    for (std::size_t i = 0; i < 40; ++i)
      worst = std::max(worst, std::abs(static_cast<double>(sound[row * length + i]) - static_cast<double>(expected.values[row * 40 + i])));
  EXPECT_LE(worst, 1e-5);
}

// The demonstration weights under the name of the other partition: not trained for it, but every row goes the way it should.
TEST_F(InputModes, ReferencesCountInOrderAndEachMatters) {
  const fs::path model = folder_.path() / "Ref2VA";
  fs::create_directories(model);
  for (const auto& entry : fs::directory_iterator(demo::folder() / "FL2VA"))
    if (entry.path().filename() != "model_index.json") fs::create_symlink(entry.path(), model / entry.path().filename());
  auto index = demo::json("FL2VA/model_index.json");
  index["_minimax_h3"]["partition"] = "ref2va";
  ASSERT_TRUE(write_file_atomically(model / "model_index.json", index.dump()).ok());
  EngineOptions options;
  options.model = model;
  const auto engine = require(Engine::open(options));

  std::vector<float> left(48000), right(48000);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = 0.3f * std::sin(0.04f * static_cast<float>(i));
  const fs::path sound = folder_.path() / "left.wav", swapped = folder_.path() / "right.wav";
  ASSERT_TRUE(write_wav(sound, left, right).ok());
  ASSERT_TRUE(write_wav(swapped, right, left).ok());
  Request clip_request;
  clip_request.prompt = kMotions[0].prompt;
  clip_request.frames = 56;
  clip_request.steps = 1;
  clip_request.seed = 1;
  const fs::path video = run(clip_request, "reference").video;

  using Kind = ReferenceInput::Kind;
  Request request;
  request.prompt = "the circle of <Picture 1> moves as in <Video 1> with the sound of <Audio 1>";
  request.frames = 56;
  request.steps = 1;
  request.seed = 4;
  request.references = {{Kind::image, picture("ref.png", draw_disc(kRed, kBlue, 0.4, 0.5)), {}, false},
                        {Kind::video, video, {}, false},
                        {Kind::audio, sound, {}, false}};
  std::map<std::string, std::vector<float>> results;
  const auto add = [&](const std::string& name) { results[name] = latents_of(run(*engine, request, name).latents, "video"); };
  const auto all = request.references;
  add("all");
  std::swap(request.references[0], request.references[2]);
  add("order");
  request.references = all;
  request.references[2].file = swapped;
  add("channels");
  request.references = all;
  request.references[1].silent = true;
  add("silent");
  request.references[1].silent = false;
  request.references[1].sound = sound;
  add("other_sound");
  request.references = {all[0], all[1]};
  add("without_sound");
  for (auto a = results.begin(); a != results.end(); ++a)
    for (auto b = std::next(a); b != results.end(); ++b)
      EXPECT_GT(golden::max_abs_diff(a->second, b->second), 1e-4) << a->first << " and " << b->first;

  request.references = {all[2]};
  EXPECT_EQ(engine->plan(request).error().code, ErrorCode::usage);   // sound alone
  EXPECT_EQ(engine_->plan(request).error().code, ErrorCode::model);  // the FL2VA model
  Request text_only;
  text_only.prompt = "a circle";
  const auto refused = engine->plan(text_only);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text().find("FL2VA"), std::string::npos);
}

TEST_F(InputModes, ModesThatExcludeEachOtherAreRefusedByName) {
  Request request;
  request.prompt = "a circle";
  request.first_frame = "a.png";
  request.retake.video = "b.mp4";
  request.retake.frames = {{0, 17}};
  const auto both = engine_->plan(request);
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().code, ErrorCode::usage);
  EXPECT_EQ(both.error().field, "retake");
  EXPECT_NE(both.error().message.find("first_frame"), std::string::npos);
  request.first_frame.clear();
  request.retake.frames.clear();
  EXPECT_EQ(engine_->plan(request).error().field, "retake");  // nothing to regenerate
  request.retake.video.clear();
  request.retake.seconds = {{0, 1}};
  EXPECT_EQ(engine_->plan(request).error().field, "retake_seconds");
}

TEST_F(InputModes, BrokenInputsAreNamed) {
  Request request;
  request.prompt = "a circle";
  request.first_frame = folder_.write("text.png", "this is no picture");
  const auto refused = engine_->plan(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  EXPECT_NE(refused.error().text().find("text.png"), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace tritium
