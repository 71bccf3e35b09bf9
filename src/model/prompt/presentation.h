// What the text encoder reads: token ids, tags and 3-axis positions of prompt, labels and vision blocks (spec/text.md §2 and §3.2).
#pragma once

#include "model/geometry/vision_rows.h"
#include "model/prompt/tokenizer.h"

#include <tritium/result.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tritium {

struct PromptReference {
  enum class Kind { image, audio, video };
  Kind kind = Kind::image;
  PatchGrid grid;           // image and video
  int frames = 0;           // video: prepared frames at 24 fps, from which the vision tower got a sample (sampled_frame_count)
  bool with_sound = false;  // video: it has a soundtrack whose latent length is above 0
};

using TokenPosition = std::array<std::int32_t, 3>;  // (t, h, w)

// L rows; row i of every list belongs to the same token.
struct Presentation {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> tags;  // 1: label, timestamp or prompt; 0: vision block with its start and end token
  std::vector<TokenPosition> positions;
  std::vector<std::string> warnings;  // accepted, but probably not what the user meant
};

struct PresentationLimits {
  std::int64_t max_tokens = 262144;  // the positions the model was made for; a caller short of memory may set less
};

// The three tasks. Errors of code usage name the field "prompt" (empty, not UTF-8, reserved tokens, too long) or the pictures;
// a grid that cannot come from the image preparation is an error of code failure, a tokenizer without the vision tokens one of code model.
Result<Presentation> present_t2va(const Tokenizer& tokenizer, std::string_view prompt, const PresentationLimits& limits = {});
// One or two keyframes, first frame before last frame. An empty prompt is accepted with a warning.
Result<Presentation> present_fl2va(const Tokenizer& tokenizer, std::string_view prompt, std::span<const PatchGrid> keyframes,
                                   const PresentationLimits& limits = {});
// References in the order of the request; how many and how long they are is not judged here but in check_references.
Result<Presentation> present_ref2va(const Tokenizer& tokenizer, std::string_view prompt, std::span<const PromptReference> references,
                                    const PresentationLimits& limits = {});

// What a request may hold (§5.6, §8), checked before anything is prepared; grids are not looked at. Errors: code usage, field "references".
Result<void> check_references(std::span<const PromptReference> references);

// Frames 0, 12, 24, ... of a clip of `frames` frames at 24 fps: 2 per second go to the vision tower (§5.6).
inline constexpr int kSampleStep = 12;
int sampled_frame_count(int frames);
// Seconds, one per temporal block: the mean time of its two sampled frames; an odd last frame stands alone.
std::vector<double> block_times(int sampled_frames);
// "<0.2 seconds>": one decimal, exact ties to even.
std::string timestamp_label(double seconds);

// Positions of ready-made ids. The k-th run of image pads takes the k-th image grid, runs of video pads take the temporal blocks of the
// video grids in order; error of code failure when ids and grids do not match exactly.
Result<std::vector<TokenPosition>> vision_positions(std::span<const std::int32_t> ids, VisionPads pads, std::span<const PatchGrid> images,
                                                    std::span<const PatchGrid> videos);

}  // namespace tritium
