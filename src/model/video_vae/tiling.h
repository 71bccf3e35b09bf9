// How the video VAE cuts its work: spatial tiles of one axis and clips along time. Pure arithmetic, part of the model's definition.
// Source: spec/vae.md §1.1, §1.4, §1.7, §1.9.
#pragma once

#include <optional>
#include <vector>

namespace tritium::video_vae {

// Tiles of one axis, in pixels. All tiles have the same length; tile k covers starts[k] .. starts[k] + tile - 1.
struct AxisTiles {
  int length = 0;
  int tile = 0;               // min(length, tile size)
  std::vector<int> starts;    // at least one
  std::vector<int> overlaps;  // overlaps[k]: pixels that tiles k and k+1 share; one less than starts

  [[nodiscard]] int count() const { return static_cast<int>(starts.size()); }
};

// The layout of an axis of `length` pixels for tiles of `tile` pixels that overlap by at least `min_overlap`; surplus overlap is dealt
// out in units of `step` pixels (the size of one latent position). Precondition: length >= 1, 0 <= min_overlap < tile, and length, tile
// and min_overlap are multiples of `step`.
[[nodiscard]] AxisTiles tile_axis(int length, int tile, int min_overlap, int step);

// Clips of video frames against groups of latent tokens. "Token" = one latent time step.
// Precondition of all members: 1 <= ratio, 1 <= clip_length, 0 < token_drop < tokens_per_clip().
struct TemporalGeometry {
  int clip_length = 0;  // frames of one clip
  int token_drop = 0;   // tokens cut from the end of an encoded video
  int ratio = 0;        // frames per token

  [[nodiscard]] int tokens_per_clip() const { return (clip_length + ratio - 1) / ratio; }
  [[nodiscard]] int front_pad() const { return tokens_per_clip() * ratio - clip_length; }    // decoded frames before a clip's first
  [[nodiscard]] int token_overlap() const { return tokens_per_clip() - token_drop; }         // tokens of the next group a decode sees
  [[nodiscard]] int frame_overlap() const { return token_overlap() * ratio - front_pad(); }  // look-ahead frames of a decoded clip
  [[nodiscard]] int tokens_per_decode() const { return tokens_per_clip() + token_overlap(); }

  // How many video frames token `index` of a video stands for.
  [[nodiscard]] int frames_of_token(int index) const { return index % tokens_per_clip() == 0 ? ratio - front_pad() : ratio; }
  // Which of the tokens_per_decode() * ratio frames of a decoded clip are used: clip_length frames, then frame_overlap() look-ahead ones.
  [[nodiscard]] std::vector<int> kept_frames() const;
  // Without the look-ahead ones, of a clip that is decoded from its own tokens_per_clip() tokens alone.
  [[nodiscard]] std::vector<int> own_frames() const;
};

// Decoding T tokens: clip k sees tokens k*tokens_per_clip() .. + tokens_per_decode() - 1 of the padded sequence.
struct DecodePlan {
  int pad_tokens = 0;           // copies of the last token appended
  int clips = 0;                // at least 1
  int total_frames = 0;         // of the padded sequence
  int dropped_tail_frames = 0;  // frames of the padding, cut from the end
  int output_frames = 0;
};

// Sequences too short for one clip (1 or 2 tokens of the released model; its own code refuses them) are padded to one clip.
// Precondition: tokens >= 1.
[[nodiscard]] DecodePlan plan_decode(const TemporalGeometry& geometry, int tokens);

// Encoding F frames: the last frame is repeated up to whole clips, each clip is encoded alone, the last tokens are dropped once.
struct EncodePlan {
  int padded_frames = 0;
  int clips = 0;
  int tokens_before_drop = 0;
  int tokens = 0;
};

// Precondition: frames >= 1.
[[nodiscard]] EncodePlan plan_encode(const TemporalGeometry& geometry, int frames);

// The longest whole video within `frames` frames: n clips (n >= 1) and the look-ahead frames; none if there are too few.
[[nodiscard]] std::optional<int> usable_video_frames(const TemporalGeometry& geometry, int frames);

}  // namespace tritium::video_vae
