#include "pipeline/parts.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

// "auto": float32 matrices while a part's weights stay below this, bfloat16 above.
constexpr std::uint64_t kAutoFloatBytes = std::uint64_t{1} << 30;

// Parts that the official programs run in float32 have no precision to choose.
Result<std::uint64_t> bytes_of(const ModelInfo& m, Part part, MatrixPolicy policy) {
  switch (part) {
    case Part::text:
      return TextModel::weight_bytes(*m.text, m.text_config, policy);
    case Part::dit:
      return dit_weight_bytes(*m.dit, m.dit_config, policy);
    case Part::video_decoder:
      return video_vae::VideoDecoder::check(*m.video_vae, m.video_vae_config, policy);
    case Part::audio_decoder:
      return audio_vae::AudioDecoder::check(*m.audio_vae, m.audio_vae_config);
    case Part::vision: {
      TRITIUM_TRY_ASSIGN(const VisionSetup setup, read_vision_setup(m));
      return VisionTower::weight_bytes(*m.text, setup.config, policy);
    }
    case Part::video_encoder:
      return video_vae::VideoEncoder::check(*m.video_vae, m.video_vae_config);
    case Part::audio_encoder:
      return audio_vae::AudioEncoder::check(*m.audio_vae, m.audio_vae_config);
  }
  return Error{ErrorCode::failure, "unknown part", "", ""};
}

// The others are multiplied in float32 always.
bool has_precision(Part part) { return part != Part::audio_decoder && part != Part::audio_encoder && part != Part::video_encoder; }

template <class T>
Result<void> keep(std::unique_ptr<T>& slot, Result<T> loaded) {
  if (!loaded.ok()) return std::move(loaded).error();
  slot = std::make_unique<T>(std::move(loaded).value());
  return {};
}

}  // namespace

std::vector<Part> encoders_for(const Inputs& inputs) {
  using Kind = ReferenceInput::Kind;
  std::vector<Part> out;
  const auto any = [&](auto test) { return std::any_of(inputs.references.begin(), inputs.references.end(), test); };
  const bool pictures = !inputs.keyframes.empty() || any([](const InputReference& r) { return r.kind != Kind::audio; });
  if (pictures) out.push_back(Part::vision);
  if (pictures || !inputs.clip.empty()) out.push_back(Part::video_encoder);
  if (!inputs.sound.empty() || any([](const InputReference& r) { return !r.sound.empty(); })) out.push_back(Part::audio_encoder);
  return out;
}

std::vector<Part> parts_for(const Inputs& inputs) {
  std::vector<Part> out = encoders_for(inputs);
  out.insert(out.end(), {Part::text, Part::dit, Part::video_decoder, Part::audio_decoder});
  return out;
}

Result<PlanInputs::Weights> part_weights(const ModelInfo& model, Part part, const std::string& compute, MatrixForm form) {
  if (compute != "auto" && compute != "f32" && compute != "bf16")
    return Error{ErrorCode::usage, fmt::format("'{}' is not one of auto, f32, bf16", compute), "compute", ""};
  TRITIUM_TRY_ASSIGN(const std::uint64_t wide, bytes_of(model, part, {MatrixPrecision::f32, form}));
  if (compute == "f32" || (compute == "auto" && wide <= kAutoFloatBytes)) return PlanInputs::Weights{wide, MatrixPrecision::f32};
  TRITIUM_TRY_ASSIGN(const std::uint64_t narrow, bytes_of(model, part, {MatrixPrecision::bf16, form}));
  return PlanInputs::Weights{narrow, has_precision(part) ? MatrixPrecision::bf16 : MatrixPrecision::f32};
}

Result<PlanInputs::Weights> Parts::weights(Part part) const {
  if (const auto found = known_.find(part); found != known_.end()) return found->second;
  TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, part_weights(model_, part, compute_, form()));
  return known_[part] = weights;
}

bool Parts::loaded(Part part) const {
  switch (part) {
    case Part::text:
      return text_ != nullptr;
    case Part::dit:
      return dit_ != nullptr;
    case Part::video_decoder:
      return video_decoder_ != nullptr;
    case Part::audio_decoder:
      return audio_decoder_ != nullptr;
    case Part::vision:
      return vision_ != nullptr;
    case Part::video_encoder:
      return video_encoder_ != nullptr;
    case Part::audio_encoder:
      return audio_encoder_ != nullptr;
  }
  return false;
}

std::uint64_t Parts::loaded_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [part, weights] : known_) sum += loaded(part) ? weights.bytes : 0;
  return sum;
}

Result<void> Parts::load(std::span<const Part> parts, const CancelToken* cancel, const std::function<void(int, int)>& percent) {
  std::uint64_t total = 0, before = 0;
  for (const Part part : parts) {
    TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, this->weights(part));
    total += loaded(part) ? 0 : weights.bytes;
  }
  for (const Part part : parts) {
    if (loaded(part)) continue;
    const PlanInputs::Weights weights = known_.at(part);
    const LoadProgress progress = [&](std::uint64_t done, std::uint64_t) {
      if (percent) percent(static_cast<int>(100 * (before + done) / std::max<std::uint64_t>(total, 1)), 100);
    };
    TRITIUM_TRY(load_one(part, {weights.precision, form()}, cancel, progress));
    before += weights.bytes;
  }
  return {};
}

Result<void> Parts::load_one(Part part, MatrixPolicy policy, const CancelToken* cancel, const LoadProgress& progress) {
  const ModelInfo& m = model_;
  switch (part) {
    case Part::text:
      return keep(text_, TextModel::load(device_, m.text, m.text_config, policy, cancel, progress));
    case Part::dit: {
      TRITIUM_TRY_ASSIGN(dit_, Dit::load(device_, m.dit, m.dit_config, policy, cancel, progress));
      return {};
    }
    case Part::video_decoder:
      return keep(video_decoder_, video_vae::VideoDecoder::load(device_, *m.video_vae, m.video_vae_config, policy, cancel, progress));
    case Part::audio_decoder:
      return keep(audio_decoder_, audio_vae::AudioDecoder::load(device_, *m.audio_vae, m.audio_vae_config, cancel, progress));
    case Part::vision: {
      TRITIUM_TRY_ASSIGN(const VisionSetup setup, read_vision_setup(m));
      return keep(vision_, VisionTower::load(device_, *m.text, setup.config, policy, cancel, progress));
    }
    case Part::video_encoder:
      return keep(video_encoder_, video_vae::VideoEncoder::load(device_, *m.video_vae, m.video_vae_config, cancel, progress));
    case Part::audio_encoder:
      return keep(audio_encoder_, audio_vae::AudioEncoder::load(device_, *m.audio_vae, m.audio_vae_config, cancel, progress));
  }
  return {};
}

}  // namespace tritium
