#include "support/fake_job_files.h"

#include "base/try.h"
#include "media/picture.h"
#include "pipeline/acceleration.h"
#include "pipeline/modes.h"
#include "pipeline/noise_mode.h"
#include "pipeline/shape.h"

#include <gtest/gtest.h>
#include <fstream>

namespace tritium::test {
namespace fs = std::filesystem;
namespace {

Result<void> check_between(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return Error{ErrorCode::usage,
               std::to_string(value) + " is out of range; allowed are " + std::to_string(least) + " to " + std::to_string(most), field, ""};
}

Result<std::optional<Size>> shape_of_keyframe(const Request& request) {
  const fs::path& file = request.first_frame.empty() ? request.last_frame : request.first_frame;
  if (file.empty()) return std::optional<Size>();
  TRITIUM_TRY_ASSIGN(const Picture picture, load_picture(file));
  return std::optional(Size{picture.width, picture.height});
}

}  // namespace

Result<Plan> plan_like_the_engine(const Request& request) {
  const ModelDefaults defaults;
  Plan plan;
  plan.prompt = request.prompt;
  TRITIUM_TRY_ASSIGN(const Mode mode, decide_mode(request));
  plan.mode = mode_name(mode);
  TRITIUM_TRY_ASSIGN(const std::optional<Size> picture, shape_of_keyframe(request));
  TRITIUM_TRY(decide_size(request, defaults, picture, plan));
  TRITIUM_TRY(decide_length(request, defaults, {}, plan));
  plan.steps = static_cast<int>(request.steps.value_or(defaults.steps));
  TRITIUM_TRY(check_between("steps", static_cast<double>(request.steps.value_or(defaults.steps)), 1, 1000));
  constexpr int kLayers = 50;  // of the released model
  TRITIUM_TRY(decide_acceleration(request, kLayers, plan));
  plan.seed = request.seed.value_or(7);
  plan.video_shift = request.video_shift.value_or(defaults.video_shift);
  plan.audio_shift = request.audio_shift.value_or(defaults.audio_shift);
  TRITIUM_TRY(check_between("video_shift", plan.video_shift, 0.1, 100));
  TRITIUM_TRY(check_between("audio_shift", plan.audio_shift, 0.1, 100));
  TRITIUM_TRY(noise_mode_from_name(request.noise));
  plan.noise = request.noise;
  StagePlan stage;
  stage.name = "denoise";
  stage.device = "CPU";
  stage.seconds = plan.steps;
  plan.stages.push_back(stage);
  plan.memories.push_back({"host", std::uint64_t{16} << 30, std::uint64_t{1} << 30});
  plan.expected_seconds = plan.steps;
  plan.peak_bytes = std::uint64_t{1} << 30;
  plan.available_bytes = std::uint64_t{16} << 30;
  return plan;
}

Request with_own_files(Request request, const fs::path& folder) {
  int count = 0;
  const auto take = [&](fs::path& file) {
    if (file.empty()) return;
    fs::create_directories(folder);
    const fs::path own = folder / (std::to_string(count++) + file.extension().string());
    std::error_code code;
    fs::copy_file(file, own, code);
    EXPECT_FALSE(code) << file << ": " << code.message();
    file = own;
  };
  take(request.first_frame);
  take(request.last_frame);
  for (ReferenceInput& reference : request.references) {
    take(reference.file);
    take(reference.sound);
  }
  take(request.retake.video);
  take(request.sound_for);
  take(request.video_for);
  return request;
}

fs::path write_whole(const fs::path& file, std::string_view content) {
  std::ofstream out(file, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  EXPECT_TRUE(out) << "cannot write " << file;
  return file;
}

}  // namespace tritium::test
