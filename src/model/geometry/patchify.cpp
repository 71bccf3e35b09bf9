#include "model/geometry/patchify.h"

#include "base/try.h"

#include <fmt/format.h>

namespace tritium {
namespace {

constexpr int kMaxCells = 16384;  // per side; keeps every product far from overflow

Result<void> check_count(std::int64_t expected, std::size_t given) {
  if (expected >= 0 && static_cast<std::uint64_t>(expected) == given) return {};
  return Error{ErrorCode::failure, fmt::format("{} values given, the shape needs {}", given, expected), "latents", ""};
}

Result<void> check_video(const VideoLatentShape& shape, std::size_t given) {
  TRITIUM_TRY(check_shape(shape));
  return check_count(shape.elements(), given);
}

Result<void> check_audio(const AudioLatentShape& shape, std::size_t given) {
  if (shape.dim < 1 || shape.length < 0)
    return Error{ErrorCode::failure, fmt::format("an audio latent of [2, {}, {}] is impossible", shape.dim, shape.length), "latents", ""};
  return check_count(shape.elements(), given);
}

// Calls visit(latent index, row index) for each pair of horizontal neighbours: two consecutive values on both sides.
template <class Visit>
void for_each_video_pair(const VideoLatentShape& s, Visit visit) {
  const auto frames = static_cast<std::size_t>(s.frames), height = static_cast<std::size_t>(s.height),
             width = static_cast<std::size_t>(s.width);
  const auto row_width = static_cast<std::size_t>(s.row_width());
  for (std::size_t c = 0; c < static_cast<std::size_t>(s.channels); ++c) {
    for (std::size_t f = 0; f < frames; ++f) {
      for (std::size_t y = 0; y < height; ++y) {
        const std::size_t latent = ((c * frames + f) * height + y) * width;
        const std::size_t first_row = (f * (height / kPatch) + y / kPatch) * (width / kPatch);
        const std::size_t feature = c * kPatch * kPatch + (y % kPatch) * kPatch;
        for (std::size_t x = 0; x < width / kPatch; ++x) visit(latent + x * kPatch, (first_row + x) * row_width + feature);
      }
    }
  }
}

// Calls visit(latent index, row index) for each value.
template <class Visit>
void for_each_audio_value(const AudioLatentShape& s, Visit visit) {
  const auto dim = static_cast<std::size_t>(s.dim), length = static_cast<std::size_t>(s.length);
  for (std::size_t channel = 0; channel < kAudioChannels; ++channel)
    for (std::size_t d = 0; d < dim; ++d)
      for (std::size_t i = 0; i < length; ++i) visit((channel * dim + d) * length + i, (channel * length + i) * dim + d);
}

}  // namespace

Result<void> check_shape(const VideoLatentShape& shape) {
  const auto possible = [](int side) { return side >= kPatch && side <= kMaxCells && side % kPatch == 0; };
  if (possible(shape.height) && possible(shape.width) && shape.channels >= 1 && shape.frames >= 0) return {};
  return Error{ErrorCode::failure,
               fmt::format("a video latent of [{}, {}, {}, {}] cannot be cut into 2x2 patches: height and width must be even, in {}..{}",
                           shape.channels, shape.frames, shape.height, shape.width, kPatch, kMaxCells),
               "latents", ""};
}

Result<std::vector<float>> patchify_video(const VideoLatentShape& shape, std::span<const float> latent) {
  TRITIUM_TRY(check_video(shape, latent.size()));
  std::vector<float> rows(latent.size());
  for_each_video_pair(shape, [&](std::size_t from, std::size_t to) {
    rows[to] = latent[from];
    rows[to + 1] = latent[from + 1];
  });
  return rows;
}

Result<std::vector<float>> unpatchify_video(const VideoLatentShape& shape, std::span<const float> rows) {
  TRITIUM_TRY(check_video(shape, rows.size()));
  std::vector<float> latent(rows.size());
  for_each_video_pair(shape, [&](std::size_t to, std::size_t from) {
    latent[to] = rows[from];
    latent[to + 1] = rows[from + 1];
  });
  return latent;
}

Result<std::vector<float>> patchify_audio(const AudioLatentShape& shape, std::span<const float> latent) {
  TRITIUM_TRY(check_audio(shape, latent.size()));
  std::vector<float> rows(latent.size());
  for_each_audio_value(shape, [&](std::size_t from, std::size_t to) { rows[to] = latent[from]; });
  return rows;
}

Result<std::vector<float>> unpatchify_audio(const AudioLatentShape& shape, std::span<const float> rows) {
  TRITIUM_TRY(check_audio(shape, rows.size()));
  std::vector<float> latent(rows.size());
  for_each_audio_value(shape, [&](std::size_t to, std::size_t from) { latent[to] = rows[from]; });
  return latent;
}

}  // namespace tritium
