// The measuring of demo clips agrees with the model's own evaluation, before and after an MP4.
#include "support/measure.h"

#include "base/files.h"
#include "media/mp4_writer.h"
#include "media/reader.h"
#include "pipeline/guard.h"
#include "unit/media_clips.h"
#include "weights/tensor_file.h"

#include <gtest/gtest.h>
#include <cstring>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

const std::filesystem::path kEval = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/eval";

nlohmann::json json_of(const std::filesystem::path& path) {
  const auto text = read_file(path);
  EXPECT_TRUE(text.ok()) << text.error().text();
  return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
}

// frames U8 [T, H, W, 3], waveform F32 [2, L].
Clip clip_of(const std::filesystem::path& path) {
  Clip clip;
  const auto file = TensorFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().text();
  if (!file.ok()) return clip;
  const TensorInfo &frames = file->header().tensors.at("frames"), &waveform = file->header().tensors.at("waveform");
  EXPECT_EQ(frames.dtype, DType::u8);
  EXPECT_EQ(waveform.dtype, DType::f32);
  clip.frames = static_cast<int>(frames.shape.at(0));
  clip.height = static_cast<int>(frames.shape.at(1));
  clip.width = static_cast<int>(frames.shape.at(2));
  clip.rgb.resize(frames.bytes);
  EXPECT_TRUE(file->read(frames, clip.rgb).ok());
  std::vector<std::uint8_t> bytes(waveform.bytes);
  EXPECT_TRUE(file->read(waveform, bytes).ok());
  const auto samples = static_cast<std::size_t>(waveform.shape.at(1));
  clip.left.resize(samples);
  clip.right.resize(samples);
  std::memcpy(clip.left.data(), bytes.data(), samples * sizeof(float));
  std::memcpy(clip.right.data(), bytes.data() + samples * sizeof(float), samples * sizeof(float));
  return clip;
}

demo::Measured measure_or_fail(const Clip& clip) {
  const auto measured = demo::measure(clip);
  EXPECT_TRUE(measured.ok()) << measured.error().text();
  return measured.ok() ? *measured : demo::Measured{};
}

void expect_answers(const demo::Measured& measured, const nlohmann::json& reference) {
  for (const auto& [name, answer] : measured.answers()) EXPECT_EQ(answer, reference.at(name).get<std::string>()) << name;
}

TEST(Measure, AgreesWithTheReferences) {
  const auto entries = json_of(kEval / "reference/reference.json");
  ASSERT_FALSE(entries.empty());
  for (const auto& entry : entries) {
    const auto file = entry.at("file").get<std::string>();
    const auto& reference = entry.at("measured");
    const demo::Measured m = measure_or_fail(clip_of(kEval / "reference" / file));
    expect_answers(m, reference);
    double worst = 0;
    for (const auto& [name, value] : {std::pair{"dx", m.dx},
                                      {"dy", m.dy},
                                      {"pan_start", m.pan_start},
                                      {"pan_end", m.pan_end},
                                      {"visible", m.visible},
                                      {"area", m.area},
                                      {"rms", m.rms}}) {
      EXPECT_NEAR(value, reference.at(name).get<double>(), 1e-3) << file << " " << name;
      worst = std::max(worst, std::abs(value - reference.at(name).get<double>()));
    }
    EXPECT_NEAR(m.area_ratio, reference.at("area_ratio").get<double>(), 1e-2) << file;
    EXPECT_NEAR(m.fill, reference.at("fill").get<double>(), 1e-2) << file;
    EXPECT_NEAR(m.peak_hz, reference.at("peak_hz").get<double>(), 1e-6) << file;
    EXPECT_NEAR(m.tonality / reference.at("tonality").get<double>(), 1, 1e-3) << file;
    std::printf("measure %s: largest difference %.2g\n", file.c_str(), worst);
  }
}

TEST(Measure, AnswersSurviveAnMp4) {
  const test::TempFolder folder;
  for (const auto& entry : json_of(kEval / "reference/reference.json")) {
    const Clip clip = clip_of(kEval / "reference" / entry.at("file").get<std::string>());
    const auto written = write_mp4(clip, folder / "clip.mp4");
    ASSERT_TRUE(written.ok()) << written.error().text();
    const auto back = read_clip(folder / "clip.mp4");
    ASSERT_TRUE(back.ok()) << back.error().text();
    ASSERT_EQ(back->frames, clip.frames);
    ASSERT_EQ(back->left.size(), clip.left.size());
    const demo::Measured before = measure_or_fail(clip), after = measure_or_fail(*back);
    expect_answers(after, entry.at("measured"));
    std::printf("after MP4: dx %+.4f (was %+.4f), dy %+.4f (%+.4f), pan %+.3f %+.3f (%+.3f %+.3f), rms %.4f (%.4f)\n", after.dx, before.dx,
                after.dy, before.dy, after.pan_start, after.pan_end, before.pan_start, before.pan_end, after.rms, before.rms);
    EXPECT_NEAR(after.dx, before.dx, 0.02);
    EXPECT_NEAR(after.dy, before.dy, 0.02);
    EXPECT_NEAR(after.pan_start, before.pan_start, 0.02);
    EXPECT_NEAR(after.pan_end, before.pan_end, 0.02);
  }
}

TEST(Measure, ScoresAsTheEvaluationDid) {
  const auto results = json_of(kEval / "results_20_steps.json");
  ASSERT_FALSE(results.at("results").empty());
  for (const auto& result : results.at("results")) {
    const auto& m = result.at("measured");
    demo::Measured measured;
    measured.color = m.at("color"), measured.bg = m.at("bg"), measured.motion = m.at("motion");
    measured.shape = m.at("shape"), measured.pitch = m.at("pitch"), measured.pan = m.at("pan");
    EXPECT_EQ(demo::score(measured, result.at("expect")), (result.at("right").get<std::map<std::string, bool>>()))
        << result.at("prompt").get<std::string>();
  }
}

TEST(Measure, GuardsAcceptTheReferences) {
  for (const auto& entry : json_of(kEval / "reference/reference.json")) {
    const Clip clip = clip_of(kEval / "reference" / entry.at("file").get<std::string>());
    const GuardReport report = inspect_clip(clip, {clip.frames, clip.width, clip.height, static_cast<std::int64_t>(clip.left.size())});
    EXPECT_TRUE(report.verdict().ok()) << report.verdict().error().text();
  }
}

TEST(Measure, ClipsThatAreTooSmallAreRefused) {
  EXPECT_FALSE(demo::measure(test::moving_disc(5)).ok());
  EXPECT_FALSE(demo::measure(test::moving_disc(22, 96, 96, false)).ok());
  EXPECT_TRUE(demo::measure(test::moving_disc(22)).ok());
}

}  // namespace
}  // namespace tritium
