#include "sampler/noise.h"

#include "base/torch_generator.h"
#include "base/try.h"
#include "model/geometry/condition_level.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

namespace tritium {
namespace {

constexpr std::size_t kBlock = 16;  // a large draw is made of independent blocks of this many values

std::vector<float> draw(TorchGenerator& generator, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  generator.normal(out);
  return out;
}

std::vector<float> draw_audio(NoiseMode mode, TorchGenerator& generator, const AudioLatentShape& shape) {
  const std::vector<float> drawn = draw(generator, shape.elements());
  if (mode == NoiseMode::diffsynth) return drawn;
  const auto dim = static_cast<std::size_t>(shape.dim), length = static_cast<std::size_t>(shape.length);
  std::vector<float> out(drawn.size());
  for (std::size_t channel = 0; channel < kAudioChannels; ++channel) {
    for (std::size_t d = 0; d < dim; ++d) {
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t from = mode == NoiseMode::sglang ? (channel * length + i) * dim + d : (d * kAudioChannels + channel) * length + i;
        out[(channel * dim + d) * length + i] = drawn[from];
      }
    }
  }
  return out;
}

// The first `shape.frames` frames of randn(channels, drawn_frames, height, width) without holding the whole draw, which for a large
// reference image is a hundred times what is used. Blocks outside the wanted frames only advance the generator.
class LeadingFrames {
 public:
  LeadingFrames(const VideoLatentShape& shape, std::int64_t drawn_frames)
      : plane_(static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width)),
        kept_(static_cast<std::size_t>(shape.frames) * plane_),
        drawn_(static_cast<std::size_t>(drawn_frames) * plane_),
        total_(static_cast<std::size_t>(shape.channels) * drawn_),
        out_(static_cast<std::size_t>(shape.elements())) {}

  std::vector<float> run(TorchGenerator& generator) {
    std::array<float, kBlock> block{};
    if (total_ < kBlock) {  // drawn by another rule
      generator.normal(std::span(block).first(total_));
      take(std::span(block).first(total_), 0);
      return std::move(out_);
    }
    std::size_t at = 0;
    for (; at + kBlock <= total_; at += kBlock) {
      if (wanted(at)) {
        generator.normal(block);
        take(block, at);
      } else {
        for (std::size_t j = 0; j < kBlock; ++j) generator.next_word();
      }
    }
    if (at == total_) return std::move(out_);
    for (; at < total_; ++at) generator.next_word();
    generator.normal(block);  // the last 16 values are drawn anew when the count is not a multiple of 16
    take(block, total_ - kBlock);
    return std::move(out_);
  }

 private:
  // Does the block that starts at this index hold a value of the kept frames, which come first in each channel?
  [[nodiscard]] bool wanted(std::size_t first) const { return first % drawn_ < kept_ || first / drawn_ != (first + kBlock - 1) / drawn_; }

  void take(std::span<const float> values, std::size_t first) {
    for (std::size_t j = 0; j < values.size(); ++j) {
      const std::size_t channel = (first + j) / drawn_, within = (first + j) % drawn_;
      if (within < kept_) out_[channel * kept_ + within] = values[j];
    }
  }

  std::size_t plane_, kept_, drawn_, total_;  // values per frame, per channel kept, per channel drawn, in the whole draw
  std::vector<float> out_;
};

}  // namespace

Latents draw_initial_noise(NoiseMode mode, std::uint64_t seed, const VideoLatentShape& video, const AudioLatentShape& audio) {
  TorchGenerator generator(seed);
  Latents out;
  out.video = draw(generator, video.elements());
  if (mode != NoiseMode::comfyui) generator = TorchGenerator(seed);
  out.audio = draw_audio(mode, generator, audio);
  return out;
}

Result<std::vector<float>> draw_condition_noise(NoiseMode mode, std::uint64_t seed, int target_frames,
                                                std::span<const VideoLatentShape> conditions) {
  for (const VideoLatentShape& shape : conditions) TRITIUM_TRY(check_shape(shape));
  if (mode == NoiseMode::comfyui) {
    std::int64_t count = 0;
    for (const VideoLatentShape& shape : conditions) count += shape.elements();
    TorchGenerator generator(seed);
    return draw(generator, count);
  }
  const std::int64_t frames = target_frames + static_cast<std::int64_t>(conditions.size());
  std::vector<float> rows;
  for (const VideoLatentShape& shape : conditions) {
    TorchGenerator generator(seed);
    const auto latent = LeadingFrames(shape, std::max<std::int64_t>(frames, shape.frames)).run(generator);
    TRITIUM_TRY_ASSIGN(const auto patched, patchify_video(shape, latent));
    rows.insert(rows.end(), patched.begin(), patched.end());
  }
  return rows;
}

Result<std::vector<float>> mix_condition_anchors(std::span<const float> clean_rows, std::span<const float> noise_rows) {
  if (clean_rows.size() != noise_rows.size()) {
    return Error{ErrorCode::failure, fmt::format("{} noise values do not fit {} condition values", noise_rows.size(), clean_rows.size()),
                 "latents", ""};
  }
  std::vector<float> out(clean_rows.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kVisualConditionLevel * clean_rows[i] + (1.0f - kVisualConditionLevel) * noise_rows[i];
  return out;
}

}  // namespace tritium
