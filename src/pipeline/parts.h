// The networks of a model on a device: each is loaded when first needed and stays loaded.
#pragma once

#include "model/audio_vae/decoder.h"
#include "model/audio_vae/encoder.h"
#include "model/dit/dit.h"
#include "model/text/text_model.h"
#include "model/video_vae/decoder.h"
#include "model/video_vae/encoder.h"
#include "model/vision/tower.h"
#include "pipeline/inputs.h"
#include "pipeline/plan.h"

#include <map>
#include <memory>
#include <span>

namespace tritium {

enum class Part { text, dit, video_decoder, audio_decoder, vision, video_encoder, audio_encoder };

// What a mode runs; the encoders only where something is to be encoded.
std::vector<Part> parts_for(const Inputs& inputs);
std::vector<Part> encoders_for(const Inputs& inputs);

// Bytes and matrix precision of a part for "auto", "f32" or "bf16", after checking every name and shape. Errors: usage (compute), model.
Result<PlanInputs::Weights> part_weights(const ModelInfo& model, Part part, const std::string& compute,
                                         MatrixForm form = MatrixForm::packed);

class Parts {
 public:
  // Device and model outlive it.
  Parts(const ModelInfo& model, Device& device, std::string compute) : model_(model), device_(device), compute_(std::move(compute)) {}

  Result<PlanInputs::Weights> weights(Part part) const;  // as part_weights(), remembered
  // `percent` counts hundredths of the bytes of those that are not loaded yet.
  Result<void> load(std::span<const Part> parts, const CancelToken* cancel, const std::function<void(int done, int total)>& percent);
  [[nodiscard]] bool loaded(Part part) const;
  [[nodiscard]] std::uint64_t loaded_bytes() const;

  // Precondition of all: loaded.
  [[nodiscard]] const TextModel& text() const { return *text_; }
  [[nodiscard]] const Dit& dit() const { return *dit_; }
  [[nodiscard]] Dit& dit() { return *dit_; }  // for adapters
  [[nodiscard]] video_vae::VideoDecoder& video_decoder() const { return *video_decoder_; }
  [[nodiscard]] const audio_vae::AudioDecoder& audio_decoder() const { return *audio_decoder_; }
  [[nodiscard]] const VisionTower& vision() const { return *vision_; }
  [[nodiscard]] const video_vae::VideoEncoder& video_encoder() const { return *video_encoder_; }
  [[nodiscard]] const audio_vae::AudioEncoder& audio_encoder() const { return *audio_encoder_; }

 private:
  Result<void> load_one(Part part, MatrixPolicy policy, const CancelToken* cancel, const LoadProgress& progress);

  // Packed matrices need the CPU's own kernels.
  [[nodiscard]] MatrixForm form() const { return device_.fast_kernels() ? MatrixForm::packed : MatrixForm::blocks; }

  const ModelInfo& model_;
  Device& device_;
  std::string compute_;
  mutable std::map<Part, PlanInputs::Weights> known_;
  std::unique_ptr<TextModel> text_;
  std::unique_ptr<Dit> dit_;
  std::unique_ptr<video_vae::VideoDecoder> video_decoder_;
  std::unique_ptr<audio_vae::AudioDecoder> audio_decoder_;
  std::unique_ptr<VisionTower> vision_;
  std::unique_ptr<video_vae::VideoEncoder> video_encoder_;
  std::unique_ptr<audio_vae::AudioEncoder> audio_encoder_;
};

}  // namespace tritium
