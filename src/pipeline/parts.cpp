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

// Whether some matrices of the transformer are multiplied as integers by MatrixPrecision::int8.
bool has_integer_blocks(const WeightPart& part, int layers) {
  for (int i = 0; i < layers; ++i)
    for (const char* name : {"attn.qkv_proj", "attn.out_proj", "mlp.fc1", "mlp.fc2"})
      if (PackedRows::meant_for_integers(part.find(fmt::format("blocks.{}.{}.weight", i, name)))) return true;
  return false;
}

// Whether matrices have to be decoded, or widened, before they are multiplied.
bool has_coded_matrices(const WeightPart& part) {
  const auto& tensors = part.tensors().all();
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& named) {
    const LogicalTensor& tensor = named.second;
    return tensor.shape.size() == 2 && (tensor.quant || tensor.stored->dtype == DType::f16);
  });
}

ProductKind product_kind(Part part, MatrixPrecision precision, MatrixForm form, const WeightPart& weights) {
  if (part == Part::audio_decoder) return ProductKind::sound;
  if (precision == MatrixPrecision::f32) return ProductKind::f32;
  if (precision == MatrixPrecision::int8) return ProductKind::int8;
  // Devices that keep blocks widen the video decoder's float16.
  if (part == Part::video_decoder && form == MatrixForm::blocks && has_coded_matrices(weights)) return ProductKind::f32;
  return has_coded_matrices(weights) ? ProductKind::decoded : ProductKind::bf16;
}

const WeightPart& file_of(const ModelInfo& m, Part part) {
  if (part == Part::text || part == Part::vision) return *m.text;
  if (part == Part::dit) return *m.dit;
  return part == Part::audio_decoder || part == Part::audio_encoder ? *m.audio_vae : *m.video_vae;
}

template <class T>
Result<void> keep(std::unique_ptr<T>& slot, Result<T> loaded) {
  if (!loaded.ok()) return std::move(loaded).error();
  slot = std::make_unique<T>(std::move(loaded).value());
  return {};
}

// Whether what is loaded in one place does for another: the same devices and blocks, and streamed ones take no more than may be, nor much
// less.
bool serves(const PartPlace& here, const PartPlace& wanted) {
  constexpr double kMuchLess = 0.8;
  return std::equal(here.shares.begin(), here.shares.end(), wanted.shares.begin(), wanted.shares.end(),
                    [](const PartPlace::Share& a, const PartPlace::Share& b) {
                      if (a.device != b.device || a.blocks != b.blocks || (a.budget == 0) != (b.budget == 0)) return false;
                      return a.budget <= b.budget && static_cast<double>(a.budget) >= kMuchLess * static_cast<double>(b.budget);
                    });
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

const char* stage_of(Part part) {
  switch (part) {
    case Part::text:
      return "text";
    case Part::dit:
      return "denoise";
    case Part::video_decoder:
      return "video";
    case Part::audio_decoder:
      return "audio";
    default:
      return "inputs";
  }
}

Result<PlanInputs::Weights> part_weights(const ModelInfo& model, Part part, const std::string& compute, MatrixForm form) {
  if (compute != "auto" && compute != "f32" && compute != "bf16" && compute != "int8")
    return Error{ErrorCode::usage, fmt::format("'{}' is not one of auto, f32, bf16, int8", compute), "compute", ""};
  if (compute == "int8" && part == Part::dit && form == MatrixForm::packed && !ops::fast_int8_products())
    return Error{ErrorCode::usage, "int8: this processor has no instructions for products of 8-bit integers (AVX512-VNNI or AVX-VNNI)",
                 "compute", "use bf16"};
  TRITIUM_TRY_ASSIGN(const std::uint64_t wide, bytes_of(model, part, {MatrixPrecision::f32, form}));
  PlanInputs::Weights out{wide, MatrixPrecision::f32, {}};
  if (compute == "bf16" || compute == "int8" || (compute == "auto" && wide > kAutoFloatBytes)) {
    TRITIUM_TRY_ASSIGN(out.bytes, bytes_of(model, part, {MatrixPrecision::bf16, form}));
    out.precision = has_precision(part) ? MatrixPrecision::bf16 : MatrixPrecision::f32;
    // Only the transformer's reference quantizes activations.
    if (part == Part::dit && compute != "bf16" && form == MatrixForm::packed && has_integer_blocks(*model.dit, model.dit_config.layers) &&
        ops::fast_int8_products())
      out.precision = MatrixPrecision::int8;
  }
  out.product = product_kind(part, out.precision, form, file_of(model, part));
  if (part == Part::dit) out.blocks = dit_block_bytes(*model.dit, model.dit_config, {out.precision, form});
  if (part == Part::text) out.blocks = TextModel::layer_bytes(*model.text, model.text_config, {out.precision, form});
  return out;
}

std::map<Part, PartPlace> part_places(const Plan& plan, std::span<const Part> parts, std::uint64_t adapter_bytes) {
  std::map<Part, PartPlace> out;
  for (const Part part : parts) {
    const auto stage = std::find_if(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& s) { return s.name == stage_of(part); });
    if (stage == plan.stages.end()) continue;
    PartPlace& place = out[part];
    place.stays = stage->stays;
    for (const DeviceShare& share : stage->shares) {
      const bool streamed = share.resident_blocks < share.blocks;
      const std::uint64_t adapters = part == Part::dit && place.shares.empty() ? adapter_bytes : 0;
      place.shares.push_back({share.device, share.blocks, streamed ? share.resident_bytes - std::min(adapters, share.resident_bytes) : 0,
                              share.resident_bytes});
    }
  }
  return out;
}

Result<PlanInputs::Weights> Parts::weights(Part part, MatrixForm form) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find({part, form}); found != known_.end()) return found->second;
  TRITIUM_TRY_ASSIGN(PlanInputs::Weights weights, part_weights(model_, part, compute_, form));
  return known_[{part, form}] = std::move(weights);
}

void Parts::make_room(const std::map<Part, PartPlace>& places) {
  std::vector<Part> going;
  for (const auto& [part, here] : places_) {
    const auto wanted = places.find(part);
    if (wanted == places.end() || !wanted->second.stays || !serves(here, wanted->second)) going.push_back(part);
  }
  for (const Part part : going) drop(part);
}

bool Parts::loaded(Part part) const {
  const std::lock_guard lock(mutex_);
  return places_.contains(part);
}

bool Parts::all_loaded(const std::map<Part, PartPlace>& places, std::span<const Part> without) const {
  const std::lock_guard lock(mutex_);
  return std::all_of(places.begin(), places.end(), [&](const auto& wanted) {
    const auto here = places_.find(wanted.first);
    return std::find(without.begin(), without.end(), wanted.first) != without.end() ||
           (here != places_.end() && serves(here->second, wanted.second));
  });
}

std::uint64_t Parts::loaded_bytes(const std::string& device) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [part, place] : places_)
    for (const PartPlace::Share& share : place.shares) sum += share.device == device ? share.resident_bytes : 0;
  return sum;
}

void Parts::drop(Part part) {
  switch (part) {
    case Part::text:
      text_.reset();
      break;
    case Part::dit:
      if (dit_ && before_dropping_dit_) before_dropping_dit_();
      dit_.reset();
      break;
    case Part::video_decoder:
      video_decoder_.reset();
      break;
    case Part::audio_decoder:
      audio_decoder_.reset();
      break;
    case Part::vision:
      vision_.reset();
      break;
    case Part::video_encoder:
      video_encoder_.reset();
      break;
    case Part::audio_encoder:
      audio_encoder_.reset();
      break;
  }
  const std::lock_guard lock(mutex_);
  places_.erase(part);
}

Result<void> Parts::load(Part part, const PartPlace& place, const CancelToken* cancel, const std::function<void(int, int)>& percent) {
  if (const auto here = places_.find(part); here != places_.end()) {
    if (serves(here->second, place)) return {};
    drop(part);
  }
  const LoadProgress progress = [&](std::uint64_t done, std::uint64_t total) {
    if (percent) percent(static_cast<int>(100 * done / std::max<std::uint64_t>(total, 1)), 100);
  };
  TRITIUM_TRY(load_one(part, place, cancel, progress));
  const std::lock_guard lock(mutex_);
  places_[part] = place;
  return {};
}

Result<void> Parts::load_dit(const PartPlace& place, const CancelToken* cancel, const LoadProgress& progress) {
  std::vector<DitShare> shares;
  for (const PartPlace::Share& share : place.shares) {
    TRITIUM_TRY_ASSIGN(Device * device, devices_.get(share.device));
    shares.push_back({device, share.blocks, {share.budget}});
  }
  if (shares.size() == 1) shares.front().blocks = model_.dit_config.layers;
  const MatrixForm form = form_for(*shares.front().device);
  TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, this->weights(Part::dit, form));
  TRITIUM_TRY_ASSIGN(dit_, Dit::load(shares, model_.dit, model_.dit_config, {weights.precision, form, pin_}, cancel, progress));
  return {};
}

Result<void> Parts::load_one(Part part, const PartPlace& place, const CancelToken* cancel, const LoadProgress& progress) {
  if (part == Part::dit) return load_dit(place, cancel, progress);
  const ModelInfo& m = model_;
  const PartPlace::Share& share = place.shares.front();
  TRITIUM_TRY_ASSIGN(Device * device, devices_.get(share.device));
  TRITIUM_TRY_ASSIGN(const PlanInputs::Weights weights, this->weights(part, form_for(*device)));
  const MatrixPolicy policy{weights.precision, form_for(*device), pin_};
  switch (part) {
    case Part::text:
      return keep(text_, TextModel::load(*device, m.text, m.text_config, policy, cancel, progress, {share.budget}));
    case Part::video_decoder:
      return keep(video_decoder_, video_vae::VideoDecoder::load(*device, *m.video_vae, m.video_vae_config, policy, cancel, progress));
    case Part::audio_decoder:
      return keep(audio_decoder_, audio_vae::AudioDecoder::load(*device, *m.audio_vae, m.audio_vae_config, cancel, progress));
    case Part::vision: {
      TRITIUM_TRY_ASSIGN(const VisionSetup setup, read_vision_setup(m));
      return keep(vision_, VisionTower::load(*device, *m.text, setup.config, policy, cancel, progress));
    }
    case Part::video_encoder:
      return keep(video_encoder_, video_vae::VideoEncoder::load(*device, *m.video_vae, m.video_vae_config, cancel, progress));
    case Part::audio_encoder:
      return keep(audio_encoder_, audio_vae::AudioEncoder::load(*device, *m.audio_vae, m.audio_vae_config, cancel, progress));
    case Part::dit:
      break;
  }
  return {};
}

}  // namespace tritium
