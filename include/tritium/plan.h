// What will be computed for a request, decided before any weight is read.
#pragma once

#include <tritium/request.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tritium {

// What a stage has on one device.
struct DeviceShare {
  std::string device;                // as in list_devices()
  int blocks = 0;                    // that run here
  int resident_blocks = 0;           // of them, kept; the others are streamed
  int slots = 0;                     // blocks in flight when some are streamed: one computes while the next arrives
  std::uint64_t resident_bytes = 0;  // weights kept, and slots
  std::uint64_t streamed_bytes = 0;  // weights that come anew in every pass
  std::uint64_t working_bytes = 0;   // activations
  [[nodiscard]] std::uint64_t peak_bytes() const { return resident_bytes + working_bytes; }
};

struct StagePlan {
  std::string name;                 // "inputs" (only with pictures, videos or sounds), "text", "denoise", "video", "audio"
  std::string device;               // as in list_devices()
  std::string precision;            // of the matrices: "f32" or "bf16"; of presets as stored: "int8", "q4_k"
  std::uint64_t weight_bytes = 0;   // on the device, resident
  std::uint64_t working_bytes = 0;  // activations and other memory besides the weights, an estimate
  double flops = 0;                 // floating-point operations of the whole stage

  // Where it runs (memory_plan.h).
  std::vector<DeviceShare> shares;       // in the order of the blocks; one unless the stage is split by layers
  bool stays = true;                     // the weights stay loaded for the next request
  std::uint64_t host_bytes = 0;          // latents, frames and other memory of the process while it runs
  std::uint64_t transfer_bytes = 0;      // weights that come to the devices in every pass
  int passes = 1;                        // evaluations, at most
  double load_seconds = 0, seconds = 0;  // reading the weights once; computing, with what has to be waited for
};

// A memory of the machine over the whole request.
struct MemoryPeak {
  std::string name;  // of the device; "host" for the memory of the process
  std::uint64_t budget_bytes = 0, peak_bytes = 0;
};

// A LoRA as it will be applied.
struct LoraPlan {
  std::string file, header_sha256;  // of names, types, shapes and places of its tensors
  double strength = 1;
  std::vector<double> scales;  // distinct factors of B·A, strength · alpha / rank
  std::string scale_text;      // the same with where each alpha comes from
  std::string made_for;        // what a step-distilled LoRA is; empty for others
  std::int64_t pairs = 0, matched = 0, layers = 0;
  std::vector<std::string> skipped;  // key and reason
  std::uint64_t bytes = 0;           // on the device
};

struct Plan {
  // The request with every value decided.
  std::string mode = "t2va";  // or "fl2va", "ref2va", "retake", "sound_for_video", "video_for_sound"
  std::string prompt;
  int width = 0, height = 0;  // pixels
  int frames = 0;             // at 24 fps
  int steps = 0;              // evaluations, if none is left out
  std::uint64_t seed = 0;
  double video_shift = 0, audio_shift = 0;
  std::string noise;
  std::vector<LoraPlan> loras;
  Acceleration acceleration;
  int evaluations = 0;                        // of the transformer that are computed, at most
  std::optional<int> computed_evaluations{};  // those that were, in a finished run
  int blocks = 0;                             // of the transformer
  std::vector<Adjustment> adjustments;
  std::vector<std::string> notes;  // facts worth knowing, nothing to worry about
  std::vector<std::string> warnings;

  // What follows from it.
  int text_tokens = 0;
  int latent_channels = 0, latent_frames = 0, latent_height = 0, latent_width = 0;  // of the video
  int audio_dim = 0, audio_latents = 0;                                             // per stereo channel
  std::int64_t condition_rows = 0;                                                  // of keyframes or references in the packed sequence
  std::int64_t rows = 0;                          // of the packed sequence: text, conditions, audio and video together
  std::vector<float> video_sigmas, audio_sigmas;  // [steps + 1]
  std::int64_t samples = 0;                       // of sound per channel, at 32 kHz

  std::vector<StagePlan> stages;
  std::vector<MemoryPeak> memories;
  double expected_seconds = 0;        // of all stages with loading, from assumed speeds
  std::uint64_t peak_bytes = 0;       // host memory at the most, an estimate
  std::uint64_t available_bytes = 0;  // host memory free when the plan was made
  std::uint64_t output_bytes = 0;     // generous estimate of the MP4

  [[nodiscard]] double seconds() const { return frames / 24.0; }
};

// For people: several lines. For machines: a JSON document.
std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);

}  // namespace tritium
