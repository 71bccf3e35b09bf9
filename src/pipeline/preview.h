// Small pictures of a clip that is still noise in part, from its latents alone: a linear map from the channels of a latent cell to the
// colour of its 16x16 pixels, fitted by least squares to finished clips of the same decoder. It costs a millisecond where the decoder takes
// seconds, and nothing of it enters the result.
#pragma once

#include "sampler/latents.h"

#include <tritium/plan.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tritium {

// rgb = weights · (channels of the cell, 1), in 0..255.
struct PreviewMap {
  int channels = 0;
  std::vector<double> weights;  // [3, channels + 1]

  [[nodiscard]] bool empty() const { return weights.empty(); }
  // A JPEG, four pixels per cell. `cells`: one latent frame, [channels, H, W]. Empty on any error.
  [[nodiscard]] std::string picture(std::span<const float> cells, int height, int width) const;
};

// The colours that a finished clip has where its latents have cells, from its frames as they come.
class CellColours {
 public:
  // Of a clip with the plan's size and frames.
  explicit CellColours(const Plan& plan);

  // rgb: the next frame, [height, width, 3].
  void add(std::span<const std::uint8_t> rgb);

  // Whether all frames came, in the plan's size.
  [[nodiscard]] bool complete() const { return fits_ && next_latent_ == latent_frames_; }
  // Mean R, G, B of the cell's pixels in the frame that lies in the middle of its latent's time. Precondition: complete().
  [[nodiscard]] std::array<float, 3> of(int latent, std::size_t cell) const {
    return means_[static_cast<std::size_t>(latent) * cells_ + cell];
  }

 private:
  int frames_, latent_frames_, latent_width_, latent_height_;
  std::size_t cells_;
  bool fits_;
  int next_frame_ = 0, next_latent_ = 0;
  std::vector<std::array<float, 3>> means_;  // [latent frames, cells]
};

// The sums of a least squares fit over the cells of finished clips.
class PreviewFit {
 public:
  // Adds cells of a clip, spread evenly. Nothing happens if latents and colours do not belong to the plan.
  void add(const Plan& plan, std::span<const float> video, const CellColours& colours);
  // None while there are too few cells for a solution.
  [[nodiscard]] std::optional<PreviewMap> solve() const;
  [[nodiscard]] int clips() const { return clips_; }

 private:
  int channels_ = 0, clips_ = 0;
  std::int64_t cells_ = 0;
  std::vector<double> normal_;  // [channels + 1, channels + 1]
  std::vector<double> right_;   // [channels + 1, 3]
};

// The map of one decoder, in memory and in the cache folder. Thread safe.
class Previews {
 public:
  // `key` names the decoder's weights. `folder`: empty for memory alone.
  Previews(std::filesystem::path folder, const std::string& key);

  [[nodiscard]] PreviewMap map();
  // A finished clip improves the map as long as few have been seen.
  void learn(const Plan& plan, std::span<const float> video, const CellColours& colours);

 private:
  std::filesystem::path file_;  // empty: none
  std::mutex mutex_;
  bool looked_ = false;  // for the file
  PreviewMap map_;
  PreviewFit fit_;
};

// Pictures of one run, no more than a hundredth of its time.
class PreviewRun {
 public:
  // `show` and the plan outlive it; an empty map or an empty `show` gives none.
  PreviewRun(const Plan& plan, PreviewMap map, const std::function<void(const std::string&)>& show);

  // After an evaluation: `state` at the noise level `sigma`, and the velocity that led there: the clean clip is estimated as x + sigma·v.
  void after_step(const Latents& state, const Latents& velocity, float sigma);

 private:
  const Plan& plan_;
  PreviewMap map_;
  const std::function<void(const std::string&)>& show_;
  double last_ = -std::numeric_limits<double>::infinity(), cost_ = 0;  // seconds
};

}  // namespace tritium
