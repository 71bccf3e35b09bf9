// What a caller asks for. Everything but the prompt may be left out; the model's own defaults then apply.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tritium {

// How a picture of another shape fills the canvas.
enum class Fit {
  cover,    // scaled to cover it, the rest cut off evenly: a circle stays a circle
  contain,  // scaled to fit inside, black bars
  stretch,  // as the reference pipelines do
};

// Something shown or played to the Ref2VA model. The prompt names it <Picture N>, <Video N> or <Audio N>, each counted from 1 in the
// order of the request.
struct ReferenceInput {
  enum class Kind { image, video, audio };
  Kind kind = Kind::image;
  std::filesystem::path file;
  std::filesystem::path sound;  // of a video: this sound in place of its own
  bool silent = false;          // of a video: leave its own sound out
};

// Regenerate parts of a given clip and keep the rest. Parts are half open. No part of a stream: that stream is kept as it is.
struct RetakeInput {
  std::filesystem::path video;                      // empty: no retake
  std::vector<std::array<std::int64_t, 2>> frames;  // of the pictures, counted at 24 per second; whole groups of 17 are redone
  std::vector<std::array<double, 2>> seconds;       // of the sound
};

// A low-rank adapter (LoRA) for the diffusion transformer, in any of the usual formats.
struct LoraInput {
  std::filesystem::path file;     // or a name in a folder "loras" beside the model
  double strength = 1;            // 0: as if it were not there
  std::optional<double> alpha{};  // in place of what the file says; the effect is strength · alpha / rank
};

// Approximations that make a run cheaper and its clip another one; none unless asked for (docs/accelerations.md). Of the first three at
// most one.
struct Acceleration {
  std::int64_t reuse_velocity = 1;                      // the transformer is computed at every so many steps; between them, extrapolation
  std::int64_t reuse_core = 1;                          // the blocks run at every so many steps, 1 to 6; between them what they added last
  std::optional<double> easycache;                      // steps are left out while the change expected stays below this, 0 to 3
  double easycache_start = 0.15, easycache_end = 0.95;  // the part of the run in which they may be
  std::optional<std::int64_t> blocks;                   // of the transformer that run, those that change the least left out; all if absent
  bool draft = false;                                   // the pictures are decoded in a cheaper way

  // Whether anything differs from a run without.
  [[nodiscard]] bool any() const { return reuse_velocity > 1 || reuse_core > 1 || easycache || blocks || draft; }
};

struct Request {
  std::string prompt;  // UTF-8; special tokens of the model are honoured

  std::optional<std::int64_t> width, height;       // pixels; raised to the next multiple of 32
  std::optional<std::int64_t> frames;              // at 24 fps; raised to the next 17n+5
  std::optional<double> seconds;                   // alternative to frames
  std::optional<std::int64_t> steps;               // evaluations of the diffusion transformer
  std::optional<std::uint64_t> seed;               // drawn at random when absent; the low 32 bits count
  std::optional<double> video_shift, audio_shift;  // noise schedule; the model's own when absent
  std::vector<LoraInput> loras;                    // step-distilled ones decide steps and shifts where these are absent
  std::filesystem::path lora_basis;                // a pruned model's full original: brings adaLN pairs of full models onto it
  bool force = false;                              // do what contradicts a LoRA's training
  Acceleration acceleration;
  std::string noise = "diffsynth";  // whose random numbers a seed means: diffsynth, sglang or comfyui

  // Input modes. Keyframes, references, a retake, sound for a video and a video for a sound exclude each other.
  std::filesystem::path first_frame, last_frame;  // pictures; either or both
  std::vector<ReferenceInput> references;         // at most 9 images, 3 videos, 3 sounds, 12 in all; sound never alone
  bool official_reference_size = false;  // scale references as the official pipelines do, also upwards; else at most to the clip's area
  RetakeInput retake;
  std::filesystem::path sound_for;  // a video that is kept and gets new sound
  std::filesystem::path video_for;  // a sound that is kept and gets a video
  Fit fit = Fit::cover;             // of keyframes and of the clip of a retake
  std::string aspect;               // "16:9", or "auto": from the first picture (the default when there is a keyframe or a clip)
};

// A value that was changed to one the model can do. Nothing is ever changed without one of these.
struct Adjustment {
  std::string field, from, to, reason;
};

// Where results go. Each file appears under its name only when it is complete.
struct OutputOptions {
  std::filesystem::path video{};       // the MP4; its metadata also go to "<video>.json"
  std::filesystem::path frames_dir{};  // PNG pictures, if not empty
  std::filesystem::path wav{};         // the sound as 16-bit WAV, if not empty
  std::filesystem::path latents{};     // the final latents as safetensors ("video" [C,T,H,W], "audio" [2,D,A]), if not empty
  std::filesystem::path thumbnail{};   // the middle frame as a JPEG at most 512 pixels wide, if not empty
  // A folder for the state of the run, if not empty. A later run of the same request there goes on where this one stopped, with the same
  // bits in its result; the state of anything else is passed over with a warning. It is the caller's to remove.
  std::filesystem::path checkpoint{};
  int checkpoint_steps = 0;  // evaluations between two states; 0: only before the first and after the last
};

}  // namespace tritium
