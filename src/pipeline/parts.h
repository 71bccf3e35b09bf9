// The networks of a model on devices: each is loaded where the plan wants it, and stays until it has to give way.
#pragma once

#include "model/audio_vae/decoder.h"
#include "model/audio_vae/encoder.h"
#include "model/dit/dit.h"
#include "model/text/text_model.h"
#include "model/video_vae/decoder.h"
#include "model/video_vae/encoder.h"
#include "model/vision/tower.h"
#include "pipeline/device_set.h"
#include "pipeline/inputs.h"
#include "pipeline/plan.h"

#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace tritium {

enum class Part { text, dit, video_decoder, audio_decoder, vision, video_encoder, audio_encoder };

// What a mode runs; the encoders only where something is to be encoded.
std::vector<Part> parts_for(const Inputs& inputs);
std::vector<Part> encoders_for(const Inputs& inputs);
// The stage of a plan in which a part runs: "inputs", "text", "denoise", "video", "audio".
const char* stage_of(Part part);

// Bytes and matrix precision of a part for "auto", "f32" or "bf16", after checking every name and shape. Errors: usage (compute), model.
Result<PlanInputs::Weights> part_weights(const ModelInfo& model, Part part, const std::string& compute,
                                         MatrixForm form = MatrixForm::packed);

// Where the weights of a part go.
struct PartPlace {
  struct Share {
    std::string device;
    int blocks = 0;                    // in their order
    std::uint64_t budget = 0;          // bytes; 0: everything is resident
    std::uint64_t resident_bytes = 0;  // of weights and slots, as planned
    bool operator==(const Share&) const = default;
  };
  std::vector<Share> shares;  // one; several for a transformer split by blocks
  bool stays = true;          // after its stage
};

// As the plan says. `adapter_bytes` of LoRAs lie beside the transformer's weights, within its budget.
std::map<Part, PartPlace> part_places(const Plan& plan, std::span<const Part> parts, std::uint64_t adapter_bytes);

// Loading and dropping is for one thread; what is loaded may be asked for by others meanwhile.
class Parts {
 public:
  // Model and devices outlive it.
  Parts(const ModelInfo& model, DeviceSet& devices, std::string compute, bool pin)
      : model_(model), devices_(devices), compute_(std::move(compute)), pin_(pin) {}

  Result<PlanInputs::Weights> weights(Part part, MatrixForm form) const;  // as part_weights(), remembered

  // Drops what is loaded and has no place, another place, or one in which it does not stay.
  void make_room(const std::map<Part, PartPlace>& places);
  // Does nothing if the part is there. `percent` counts hundredths.
  Result<void> load(Part part, const PartPlace& place, const CancelToken* cancel, const std::function<void(int done, int total)>& percent);
  void drop(Part part);
  [[nodiscard]] bool loaded(Part part) const;
  // Whether every part, but for those in `without`, is loaded where it should be.
  [[nodiscard]] bool all_loaded(const std::map<Part, PartPlace>& places, std::span<const Part> without) const;
  [[nodiscard]] std::uint64_t loaded_bytes(const std::string& device) const;
  // Called before the transformer goes.
  void before_dropping_dit(std::function<void()> call) { before_dropping_dit_ = std::move(call); }

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
  Result<void> load_one(Part part, const PartPlace& place, const CancelToken* cancel, const LoadProgress& progress);
  Result<void> load_dit(const PartPlace& place, const CancelToken* cancel, const LoadProgress& progress);

  const ModelInfo& model_;
  DeviceSet& devices_;
  std::string compute_;
  bool pin_;
  mutable std::mutex mutex_;  // of what is known and of the places
  mutable std::map<std::pair<Part, MatrixForm>, PlanInputs::Weights> known_;
  std::map<Part, PartPlace> places_;  // of what is loaded
  std::function<void()> before_dropping_dit_;
  std::unique_ptr<TextModel> text_;
  std::unique_ptr<Dit> dit_;
  std::unique_ptr<video_vae::VideoDecoder> video_decoder_;
  std::unique_ptr<audio_vae::AudioDecoder> audio_decoder_;
  std::unique_ptr<VisionTower> vision_;
  std::unique_ptr<video_vae::VideoEncoder> video_encoder_;
  std::unique_ptr<audio_vae::AudioEncoder> audio_encoder_;
};

}  // namespace tritium
