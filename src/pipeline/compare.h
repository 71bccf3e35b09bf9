// Two forms of one model run side by side: what a conversion costs in the end.
#pragma once

#include <tritium/engine.h>

#include <string>
#include <vector>

namespace tritium {

struct ComparedPrompt {
  std::string prompt;
  double video_error = 0, audio_error = 0;      // ‖latents - reference‖ / ‖reference‖ after the last step
  double frame_psnr = 0, worst_frame_psnr = 0;  // dB of the 8-bit pictures: over all, and of the worst one; infinite when equal
};

struct CompareRequest {
  Request request;  // without a prompt; a fixed seed, size and number of steps
  std::vector<std::string> prompts;
};

// A short clip of the smallest size the model was trained for.
Result<CompareRequest> default_comparison(const std::filesystem::path& model);

// Generates every prompt with both models from the same noise. Errors: those of the engine, with the model named.
Result<std::vector<ComparedPrompt>> compare_models(const EngineOptions& reference, const EngineOptions& other, const CompareRequest& what,
                                                   const ProgressCallback& progress, const CancelToken* cancel);

}  // namespace tritium
