// What a caller asks for. Everything but the prompt may be left out; the model's own defaults then apply.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tritium {

struct Request {
  std::string prompt;  // UTF-8; special tokens of the model are honoured

  std::optional<std::int64_t> width, height;  // pixels; raised to the next multiple of 32
  std::optional<std::int64_t> frames;         // at 24 fps; raised to the next 17n+5
  std::optional<double> seconds;              // alternative to frames
  std::optional<std::int64_t> steps;          // evaluations of the diffusion transformer
  std::optional<std::uint64_t> seed;          // drawn at random when absent; the low 32 bits count
  std::optional<double> video_shift, audio_shift;  // noise schedule; the model's own when absent
  std::string noise = "diffsynth";  // whose random numbers a seed means: diffsynth, sglang or comfyui
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
};

}  // namespace tritium
