// The one sequence of rows that the denoiser works on: which rows there are, where each one is in time and space, and how clean the
// model is told it is. Pure functions of shapes. Source: spec/dit.md §5 (order), §6 (positions), §7 (timesteps, tags).
//
//   [text | keyframes | references, in request order | target audio | target video]
//
// Keyframes (FL2VA models) and references (Ref2VA models) are conditions: rows that are never denoised. A reference video with sound
// puts its audio rows before its video rows. There are no padding rows.
#pragma once

#include "model/geometry/patchify.h"
#include "model/geometry/retake_mask.h"

#include <tritium/result.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tritium {

// Selects the third of a block's modulation that a row uses; the value is its index there (spec/dit.md §4.4).
enum class Modality : std::uint8_t { video = 0, text = 1, audio = 2 };

enum class RowRole : std::uint8_t { text, keyframe, reference_visual, reference_audio, target_audio, target_video };

// Rows first .. first+rows-1 have one role and come from one source.
struct Segment {
  RowRole role = RowRole::text;
  int condition = -1;  // index of the keyframe or reference in the request; -1 for the others
  int first = 0;
  int rows = 0;

  [[nodiscard]] int end() const { return first + rows; }
  bool operator==(const Segment&) const = default;
};

inline constexpr int kLastFrame = -1;  // as a keyframe: the last pixel frame of the clip

enum class ReferenceKind : std::uint8_t { image, video, audio };

struct Reference {
  ReferenceKind kind = ReferenceKind::image;
  VideoLatentShape visual;  // one frame for an image, none for sound alone
  int audio_latents = 0;    // per channel; 0 for an image or a silent video
};

struct PackingRequest {
  std::vector<Modality> text_tags;    // one per text row: `text`, or `video` for a vision token inside the prompt
  VideoLatentShape video;             // the clip to generate
  int audio_latents = 0;              // A of the clip to generate
  std::vector<int> keyframes;         // pixel frame that each one stands for: 0, kLastFrame, or any other frame of the clip
  std::vector<Reference> references;  // in request order
};

using Position = std::array<float, 3>;  // t, h, w

struct PackedLayout {
  std::vector<Segment> segments;    // in packed order, covering all rows; the last two are target audio and target video
  std::vector<Position> positions;  // [rows]
  std::vector<Modality> tags;       // [rows]
  VideoLatentShape video;           // of the target
  int audio_latents = 0;            // of the target

  [[nodiscard]] int rows() const { return segments.back().end(); }
  [[nodiscard]] const Segment& text() const { return segments.front(); }
  [[nodiscard]] const Segment& target_audio() const { return segments[segments.size() - 2]; }
  [[nodiscard]] const Segment& target_video() const { return segments.back(); }
};

// Only the segments, for planning. Errors (usage): field "prompt" without a token or with an audio tag; "video", "audio", "keyframe",
// "reference" for a shape that cannot be packed, or a total of more than 2^31-1 rows.
Result<std::vector<Segment>> packed_segments(const PackingRequest& request);
// Errors as packed_segments().
Result<PackedLayout> make_layout(const PackingRequest& request);
// The positions of make_layout() before they are rounded to float32, [rows][t, h, w]. Errors as packed_segments().
Result<std::vector<std::array<double, 3>>> exact_positions(const PackingRequest& request);

// Row numbers by input projection, conditions first, then the target (the same order as in the sequence).
[[nodiscard]] std::vector<std::int32_t> text_rows(const PackedLayout& layout);
[[nodiscard]] std::vector<std::int32_t> visual_rows(const PackedLayout& layout);
[[nodiscard]] std::vector<std::int32_t> audio_rows(const PackedLayout& layout);

// Axes of the position grid, in double precision (spec/dit.md §6). `cells`: latent cells along the axis, of an object of
// height*width cells; the result has one coordinate per patch.
[[nodiscard]] std::vector<double> spatial_axis(int cells, int height, int width);
// Start of each video latent after the origin, and at the end the length of the whole: [latents + 1].
[[nodiscard]] std::vector<double> video_time_axis(int latents);

// Consecutive rows that share one modulation vector.
struct ModulationRun {
  int first = 0;
  int rows = 0;
  int timestep = 0;  // index into RowTimesteps::values
  Modality modality = Modality::video;

  // Row of the modulation table [timesteps * 3].
  [[nodiscard]] int table_row() const { return timestep * 3 + static_cast<int>(modality); }
  bool operator==(const ModulationRun&) const = default;
};

struct RowTimesteps {
  std::vector<float> values;        // the distinct times, ascending; at most four
  std::vector<std::uint8_t> index;  // [rows], into values
  std::vector<ModulationRun> runs;  // covering all rows; neighbours differ
};

// The time of every row for one evaluation. `video_time`, `audio_time`: 1 - sigma of the streams. Rows that a retake keeps count as
// clean. Errors (failure): field "retake", a mask that is neither empty nor of the target's length; field "sigma", a time that is not
// finite.
Result<RowTimesteps> assign_timesteps(const PackedLayout& layout, float video_time, float audio_time, const RetakeMasks& masks = {});

}  // namespace tritium
