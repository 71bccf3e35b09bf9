// The demonstration model with its stages at hand, for tests that start or look between two of them.
#pragma once

#include "media/clip.h"
#include "pipeline/plan.h"
#include "pipeline/stages.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace tritium::demo {

// models/demo of the source tree
std::filesystem::path folder();
// A JSON file below it; ends the test run with a message when it cannot be read.
nlohmann::json json(const std::string& relative);

struct Stages {
  // On a device named as for Device::open. Ends the test run with a message when the model cannot be loaded.
  explicit Stages(const std::string& device = "");

  // How matrices of such a precision are kept on the device.
  [[nodiscard]] MatrixPolicy policy(MatrixPrecision precision) const;
  // The plan of a request, as the engine makes it.
  [[nodiscard]] Plan plan(const Request& request) const;
  [[nodiscard]] Conditioning encode(const std::string& prompt) const;
  // Latents to the whole clip.
  Clip decode(const Plan& plan, const Latents& latents);
  // The same without sound.
  Clip decode_pictures(const Plan& plan, const Latents& latents);

  ModelInfo model;
  std::unique_ptr<Tokenizer> tokenizer;
  StageWeights weights;
  std::unique_ptr<Device> device;
  std::unique_ptr<TextModel> text;
  std::unique_ptr<Dit> dit;
  std::unique_ptr<video_vae::VideoDecoder> video;
  std::unique_ptr<audio_vae::AudioDecoder> audio;
};

// The value, or the end of the test run with the error's text.
template <class T>
T require(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "demo model: %s\n", result.error().text().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

}  // namespace tritium::demo
