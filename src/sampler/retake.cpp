#include "sampler/retake.h"

#include "base/try.h"

#include <fmt/format.h>

namespace tritium {
namespace {

Result<void> check_count(const char* what, std::size_t given, std::int64_t expected) {
  if (static_cast<std::int64_t>(given) == expected) return {};
  return Error{ErrorCode::failure, fmt::format("{} has {} values, {} expected", what, given, expected), "latents", ""};
}

// Calls set(index) for every kept element of a latent [outer, mask.size(), inner].
template <class Set>
void for_each_kept(const RetakeMask& mask, std::size_t outer, std::size_t inner, Set set) {
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t f = 0; f < mask.size(); ++f) {
      if (mask[f] != 0) continue;
      for (std::size_t i = 0; i < inner; ++i) set((o * mask.size() + f) * inner + i);
    }
  }
}

template <class Set>
void for_each_kept(const RetakeMask& mask, const VideoLatentShape& shape, Set set) {
  for_each_kept(mask, static_cast<std::size_t>(shape.channels),
                static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width), set);
}

template <class Set>
void for_each_kept(const RetakeMask& mask, const AudioLatentShape& shape, Set set) {
  for_each_kept(mask, std::size_t{kAudioChannels} * static_cast<std::size_t>(shape.dim), 1, set);
}

template <class Shape>
void blend(std::vector<float>& x, const RetakeMask& mask, const Shape& shape, const std::vector<float>& noise,
           const std::vector<float>& clean, float sigma) {
  for_each_kept(mask, shape, [&](std::size_t i) { x[i] = sigma * noise[i] + (1.0f - sigma) * clean[i]; });
}

template <class Shape>
std::vector<std::size_t> every(std::size_t stride, const RetakeMask& mask, const Shape& shape) {
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(shape.elements()));
  for_each_kept(mask, shape, [&](std::size_t i) { kept[i] = 1; });
  std::vector<std::size_t> out;
  std::size_t seen = 0;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (kept[i] == 0 && seen++ % stride == 0) out.push_back(i);
  return out;
}

}  // namespace

Result<Retake> Retake::make(const VideoLatentShape& video, const AudioLatentShape& audio, RetakeMasks masks, Latents clean, Latents noise) {
  if (!masks.video.empty()) {
    TRITIUM_TRY(check_count("the video mask", masks.video.size(), video.frames));
    TRITIUM_TRY(check_count("the clean video latent", clean.video.size(), video.elements()));
    TRITIUM_TRY(check_count("the video noise", noise.video.size(), video.elements()));
  }
  if (!masks.audio.empty()) {
    TRITIUM_TRY(check_count("the audio mask", masks.audio.size(), audio.length));
    TRITIUM_TRY(check_count("the clean audio latent", clean.audio.size(), audio.elements()));
    TRITIUM_TRY(check_count("the audio noise", noise.audio.size(), audio.elements()));
  }
  Retake out;
  out.video_ = video;
  out.audio_ = audio;
  out.masks_ = std::move(masks);
  out.clean_ = std::move(clean);
  out.noise_ = std::move(noise);
  return out;
}

Result<void> Retake::check(const Latents& x) const {
  TRITIUM_TRY(check_count("the video latent", x.video.size(), video_.elements()));
  return check_count("the audio latent", x.audio.size(), audio_.elements());
}

Result<void> Retake::make_clean(Latents& x) const {
  TRITIUM_TRY(check(x));
  for_each_kept(masks_.video, video_, [&](std::size_t i) { x.video[i] = clean_.video[i]; });
  for_each_kept(masks_.audio, audio_, [&](std::size_t i) { x.audio[i] = clean_.audio[i]; });
  return {};
}

Result<void> Retake::hold(Latents& x, float video_sigma, float audio_sigma) const {
  TRITIUM_TRY(check(x));
  blend(x.video, masks_.video, video_, noise_.video, clean_.video, video_sigma);
  blend(x.audio, masks_.audio, audio_, noise_.audio, clean_.audio, audio_sigma);
  return {};
}

LatentElements Retake::regenerated(std::size_t stride) const {
  return {every(stride, masks_.video, video_), every(stride, masks_.audio, audio_)};
}

}  // namespace tritium
