#include "pipeline/inputs.h"

#include "base/try.h"
#include "media/audio_resample.h"
#include "media/input_limits.h"
#include "media/picture.h"
#include "media/resample.h"
#include "media/video_input.h"
#include "model/dit/packing.h"
#include "model/geometry/clip_length.h"
#include "pipeline/fit.h"
#include "pipeline/shape.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr int kSampleRate = 32000;
// The shortest clip that a retake can be made of: what one clip of the video encoder needs.
constexpr double kMinClipSeconds = 1.0 / kFramesPerSecond;

Result<InputSound> to_model_rate(const StereoSound& sound) {
  InputSound out;
  TRITIUM_TRY_ASSIGN(out.left, resample_audio(sound.left, sound.sample_rate, kSampleRate));
  TRITIUM_TRY_ASSIGN(out.right, resample_audio(sound.right, sound.sample_rate, kSampleRate));
  return out;
}

Result<InputSound> read_sound(const std::filesystem::path& file, double max_seconds, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(const StereoSound sound, load_audio(file, {max_seconds, cancel}));
  return to_model_rate(sound);
}

// The given clip, every picture brought to the canvas as it is read.
Result<void> open_clip(const std::filesystem::path& file, const Request& request, const ModelDefaults& defaults, Inputs& inputs,
                       const CancelToken* cancel) {
  std::optional<Size> canvas;
  VideoOptions options;
  options.min_seconds = kMinClipSeconds;
  options.max_seconds = static_cast<double>(kMaxFrames) / kFramesPerSecond;
  options.cancel = cancel;
  const auto sink = [&](const VideoFrame& frame) -> Result<void> {
    const Size display{frame.display_width, frame.display_height};
    if (!canvas) {
      Plan scratch;
      TRITIUM_TRY(decide_size(request, defaults, display, scratch));
      canvas = Size{scratch.width, scratch.height};
      inputs.picture = display;
    }
    TRITIUM_TRY_ASSIGN(Picture fitted, fit_picture(frame.picture, display, *canvas, request.fit));
    for (int i = 1; i < frame.count; ++i) inputs.clip.push_back(fitted);
    inputs.clip.push_back(std::move(fitted));
    return {};
  };
  TRITIUM_TRY_ASSIGN(const VideoInput video, load_video(file, options, sink));
  inputs.clip_frames = static_cast<int>(inputs.clip.size());
  inputs.frames = inputs.clip_frames;
  if (video.sound) { TRITIUM_TRY_ASSIGN(inputs.sound, to_model_rate(*video.sound)); }
  return {};
}

Result<void> open_keyframes(const Request& request, Inputs& inputs) {
  for (const auto& [file, place] : {std::pair(request.first_frame, 0), std::pair(request.last_frame, kLastFrame)}) {
    if (file.empty()) continue;
    TRITIUM_TRY_ASSIGN(Picture picture, load_picture(file));
    if (!inputs.picture) inputs.picture = Size{picture.width, picture.height};
    inputs.keyframes.push_back(std::move(picture));
    inputs.keyframe_places.push_back(place);
  }
  return {};
}

// Size of the frames of a reference video: the official rule may enlarge, which costs rows and shows nothing new.
Result<Size> video_size(Size display, bool official) {
  TRITIUM_TRY_ASSIGN(const Size size, reference_video_size(display.width, display.height));
  return official || size.area() <= display.area() ? size : shrink_to_area(display, display.area());
}

Result<InputReference> read_image(const ReferenceInput& given, const Plan& plan, bool official) {
  InputReference out{given.kind, {}, {}};
  TRITIUM_TRY_ASSIGN(const Picture picture, load_picture(given.file));
  const auto size = reference_image_size(picture.width, picture.height, official ? ReferenceFit::short_edge : ReferenceFit::match,
                                         {plan.width, plan.height});
  if (!size.ok())
    return Error{size.error().code, fmt::format("'{}': {}", given.file.string(), size.error().message), size.error().field,
                 size.error().hint};
  TRITIUM_TRY_ASSIGN(Picture scaled, resample(picture, size->width, size->height, ResampleFilter::lanczos));
  out.frames.push_back(std::move(scaled));
  return out;
}

Result<InputReference> read_video(const ReferenceInput& given, const Plan& plan, bool official, const CancelToken* cancel) {
  InputReference out{given.kind, {}, {}};
  VideoOptions options;
  options.keep_frames = plan.frames;  // a reference is not longer than the clip to make
  options.sound = !given.silent && given.sound.empty();
  options.cancel = cancel;
  const auto sink = [&](const VideoFrame& frame) -> Result<void> {
    TRITIUM_TRY_ASSIGN(const Size size, video_size({frame.display_width, frame.display_height}, official));
    TRITIUM_TRY_ASSIGN(Picture scaled, resample(frame.picture, size.width, size.height, ResampleFilter::lanczos));
    for (int i = 1; i < frame.count; ++i) out.frames.push_back(scaled);
    out.frames.push_back(std::move(scaled));
    return {};
  };
  TRITIUM_TRY_ASSIGN(const VideoInput video, load_video(given.file, options, sink));
  if (video.sound) {
    TRITIUM_TRY_ASSIGN(out.sound, to_model_rate(*video.sound));
  } else if (!given.sound.empty()) {
    TRITIUM_TRY_ASSIGN(out.sound, read_sound(given.sound, kMaxVideoSeconds, cancel));
  }
  return out;
}

Result<void> read_references(const Request& request, const Plan& plan, Inputs& inputs, const CancelToken* cancel) {
  using Kind = ReferenceInput::Kind;
  const auto count = [&](Kind kind) {
    return static_cast<int>(
        std::count_if(request.references.begin(), request.references.end(), [kind](const ReferenceInput& r) { return r.kind == kind; }));
  };
  TRITIUM_TRY(check_reference_counts({count(Kind::image), count(Kind::video), count(Kind::audio)}));
  std::vector<int> video_frames;
  for (const ReferenceInput& given : request.references) {
    if (given.kind == Kind::audio) {
      TRITIUM_TRY_ASSIGN(InputSound sound, read_sound(given.file, kMaxVideoSeconds, cancel));
      inputs.references.push_back({given.kind, {}, std::move(sound)});
      continue;
    }
    TRITIUM_TRY_ASSIGN(InputReference reference, given.kind == Kind::image
                                                     ? read_image(given, plan, request.official_reference_size)
                                                     : read_video(given, plan, request.official_reference_size, cancel));
    if (given.kind == Kind::video) video_frames.push_back(static_cast<int>(reference.frames.size()));
    inputs.references.push_back(std::move(reference));
  }
  return check_total_video_length(video_frames);
}

}  // namespace

Result<Inputs> open_inputs(const Request& request, Mode mode, const ModelDefaults& defaults, const CancelToken* cancel) {
  Inputs inputs;
  inputs.mode = mode;
  switch (mode) {
    case Mode::t2va:
    case Mode::ref2va:
      break;
    case Mode::fl2va:
      TRITIUM_TRY(open_keyframes(request, inputs));
      break;
    case Mode::retake:
      TRITIUM_TRY(open_clip(request.retake.video, request, defaults, inputs, cancel));
      break;
    case Mode::sound_for_video:
      TRITIUM_TRY(open_clip(request.sound_for, request, defaults, inputs, cancel));
      break;
    case Mode::video_for_sound: {
      TRITIUM_TRY_ASSIGN(inputs.sound, read_sound(request.video_for, static_cast<double>(kMaxFrames) / kFramesPerSecond, cancel));
      inputs.frames =
          std::max(1, static_cast<int>(std::ceil(static_cast<double>(inputs.sound.left.size()) * kFramesPerSecond / kSampleRate)));
      break;
    }
  }
  return inputs;
}

Result<void> fit_inputs(Inputs& inputs, const Request& request, const Plan& plan, const CancelToken* cancel) {
  const Size canvas{plan.width, plan.height};
  for (Picture& picture : inputs.keyframes) {
    TRITIUM_TRY_ASSIGN(picture, fit_picture(picture, {picture.width, picture.height}, canvas, request.fit));
  }
  if (inputs.mode == Mode::ref2va) TRITIUM_TRY(read_references(request, plan, inputs, cancel));
  if (!inputs.clip.empty()) {
    const auto frames = static_cast<std::size_t>(plan.frames);
    if (inputs.clip.size() > frames) inputs.clip.resize(frames);
    while (inputs.clip.size() < frames) inputs.clip.push_back(inputs.clip.back());
  }
  return {};
}

}  // namespace tritium
