// Regenerating parts of a given clip: what a retake adds to a run. Source: spec/dit.md §12.
// Kept elements enter the model clean (their rows get time 1, see model/dit/packing.h) and between the steps travel on the straight
// line from noise to clean, so that they end exactly on the given clip.
#pragma once

#include "model/geometry/patchify.h"
#include "model/geometry/retake_mask.h"
#include "sampler/latents.h"

#include <tritium/result.h>

namespace tritium {

// Indices into the latents of both streams, increasing.
struct LatentElements {
  std::vector<std::size_t> video, audio;
};

class Retake {
 public:
  // `clean`: the given clip, `noise`: the initial state; both complete. A stream whose mask is empty is not touched, and its clean
  // latent may be empty. Error (failure, field "latents"): a size does not fit.
  static Result<Retake> make(const VideoLatentShape& video, const AudioLatentShape& audio, RetakeMasks masks, Latents clean, Latents noise);

  [[nodiscard]] const RetakeMasks& masks() const { return masks_; }

  // Both need a state of the shapes given to make(). Error as there.
  // Before a forward pass: kept elements become clean.
  Result<void> make_clean(Latents& x) const;
  // After a step that reached these noise levels: kept elements become sigma*noise + (1-sigma)*clean.
  Result<void> hold(Latents& x, float video_sigma, float audio_sigma) const;

  // Every `stride`-th of the elements that are made anew; of a stream without a mask these are all.
  [[nodiscard]] LatentElements regenerated(std::size_t stride) const;

 private:
  Retake() = default;
  [[nodiscard]] Result<void> check(const Latents& x) const;

  VideoLatentShape video_;
  AudioLatentShape audio_;
  RetakeMasks masks_;
  Latents clean_;
  Latents noise_;
};

}  // namespace tritium
