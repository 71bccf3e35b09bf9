#include "pipeline/vision_input.h"

#include "base/try.h"
#include "media/resample.h"
#include "model/prompt/presentation.h"

namespace tritium {

Result<PatchRows> prepare_image(const PictureView& picture, const VisionRules& rules) {
  TRITIUM_TRY_ASSIGN(const Size size, smart_resize_image(picture.width, picture.height, rules.limits));
  if (size == Size{picture.width, picture.height}) return cut_patches(std::span(&picture, 1), rules.patch);
  TRITIUM_TRY_ASSIGN(const Picture resized, resample(picture, size.width, size.height, ResampleFilter::bicubic));
  const PictureView view(resized);
  return cut_patches(std::span(&view, 1), rules.patch);
}

Result<PatchRows> prepare_video(std::span<const PictureView> frames, const VisionRules& rules) {
  if (frames.empty()) return Error{ErrorCode::failure, "a reference video has no sampled frames", "video", ""};
  const PictureView& first = frames.front();
  TRITIUM_TRY_ASSIGN(const Size size,
                     smart_resize_video(static_cast<std::int64_t>(frames.size()), first.width, first.height, rules.limits));
  if (size == Size{first.width, first.height}) return cut_patches(frames, rules.patch);
  std::vector<Picture> resized;
  for (const PictureView& frame : frames) {
    TRITIUM_TRY_ASSIGN(Picture picture, resample(frame, size.width, size.height, ResampleFilter::bicubic));
    resized.push_back(std::move(picture));
  }
  const std::vector<PictureView> views(resized.begin(), resized.end());
  return cut_patches(views, rules.patch);
}

std::vector<PictureView> sample_frames(const Clip& clip) {
  const int count = sampled_frame_count(clip.frames);
  std::vector<PictureView> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) out.emplace_back(clip.width, clip.height, clip.frame(i * kSampleStep));
  return out;
}

}  // namespace tritium
