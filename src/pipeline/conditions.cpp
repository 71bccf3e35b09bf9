#include "pipeline/conditions.h"

#include "base/try.h"
#include "model/geometry/clip_length.h"
#include "pipeline/noise_mode.h"
#include "pipeline/vision_input.h"
#include "sampler/noise.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium {
namespace {

using Kind = ReferenceInput::Kind;
using video_vae::Posterior;
using video_vae::TokenGrid;
using Step = std::function<void(int, int)>;

// The tokenizer and the encoder must mean the same tokens by pictures and videos.
Result<VisionSetup> vision_for(const Tokenizer& tokenizer, const ModelInfo& model) {
  TRITIUM_TRY_ASSIGN(VisionSetup setup, read_vision_setup(model));
  const VisionPads& pads = setup.config.pads;
  for (const auto& [token, id] : {std::pair("<|image_pad|>", pads.image), std::pair("<|video_pad|>", pads.video)})
    if (tokenizer.token_id(token) != id)
      return Error{ErrorCode::model,
                   fmt::format("'{}' is {} in the tokenizer and {} in the text encoder's config.json", token,
                               tokenizer.token_id(token).value_or(-1), id),
                   "model", "they belong to different models"};
  return setup;
}

Result<PatchRows> image_patches(const Picture& picture, const VisionSetup& setup) {
  return prepare_image(picture, {setup.config.patch, setup.image});
}

Result<PatchRows> video_patches(const std::vector<Picture>& frames, const VisionSetup& setup) {
  std::vector<PictureView> sampled;
  for (std::size_t i = 0; i < frames.size(); i += kSampleStep) sampled.emplace_back(frames[i]);
  return prepare_video(sampled, {setup.config.patch, setup.video});
}

Result<PromptInputs> prepare_references(const Tokenizer& tokenizer, const ModelInfo& model, const std::string& prompt, const Inputs& inputs,
                                        const PresentationLimits& limits) {
  TRITIUM_TRY_ASSIGN(const VisionSetup setup, vision_for(tokenizer, model));
  PromptInputs out;
  std::vector<PromptReference> references;
  for (const InputReference& given : inputs.references) {
    PromptReference reference;
    if (given.kind == Kind::audio) {
      reference.kind = PromptReference::Kind::audio;
    } else if (given.kind == Kind::image) {
      TRITIUM_TRY_ASSIGN(PatchRows rows, image_patches(given.frames.front(), setup));
      reference = {PromptReference::Kind::image, rows.grid, 0, false};
      out.images.push_back(std::move(rows));
    } else {
      TRITIUM_TRY_ASSIGN(PatchRows rows, video_patches(given.frames, setup));
      reference = {PromptReference::Kind::video, rows.grid, static_cast<int>(given.frames.size()), !given.sound.empty()};
      out.videos.push_back(std::move(rows));
    }
    references.push_back(reference);
  }
  TRITIUM_TRY(check_references(references));
  TRITIUM_TRY_ASSIGN(out.presentation, present_ref2va(tokenizer, prompt, references, limits));
  return out;
}

Result<VisionRows> encode_pictures(const VisionTower& tower, VisionModality modality, const std::vector<PatchRows>& pictures,
                                   const CancelToken* cancel) {
  VisionRows rows;
  for (const PatchRows& each : pictures) {
    TRITIUM_TRY_ASSIGN(const VisionRows one, tower.encode(modality, each.values, std::span(&each.grid, 1), cancel));
    rows.append(one);
  }
  return rows;
}

video_vae::FrameSource source_of(const std::vector<Picture>& frames) {
  return {static_cast<int>(frames.size()), frames.front().height, frames.front().width,
          [&frames](int number, std::span<std::uint8_t> rgb) -> Result<void> {
            std::copy(frames[static_cast<std::size_t>(number)].rgb.begin(), frames[static_cast<std::size_t>(number)].rgb.end(),
                      rgb.begin());
            return {};
          }};
}

Result<std::vector<float>> rows_of(const TokenGrid& latents) {
  return patchify_video({latents.planes, latents.tokens, latents.height, latents.width}, latents.values);
}

int sound_latents(const InputSound& sound, int samples_per_latent) {
  return static_cast<int>((sound.left.size() + static_cast<std::size_t>(samples_per_latent) - 1) /
                          static_cast<std::size_t>(samples_per_latent));
}

// Condition rows of the visual part: clean latents, then the noise that belongs to them all.
Result<void> mix_anchors(const std::vector<std::vector<float>>& clean, std::span<const VideoLatentShape> shapes, const Plan& plan,
                         DitRows& rows) {
  std::vector<float> joined;
  for (const auto& part : clean) joined.insert(joined.end(), part.begin(), part.end());
  TRITIUM_TRY_ASSIGN(const NoiseMode mode, noise_mode_from_name(plan.noise));
  TRITIUM_TRY_ASSIGN(const std::vector<float> noise, draw_condition_noise(mode, plan.seed, plan.latent_frames, shapes));
  TRITIUM_TRY_ASSIGN(rows.video, mix_condition_anchors(joined, noise));
  return {};
}

Result<void> encode_keyframes(const Parts& parts, const Inputs& inputs, const Plan& plan, Conditioning& c, const CancelToken* cancel,
                              const Step& progress) {
  std::vector<std::vector<float>> clean;
  std::vector<VideoLatentShape> shapes;
  for (std::size_t i = 0; i < inputs.keyframes.size(); ++i) {
    TRITIUM_TRY_ASSIGN(const TokenGrid latents, parts.video_encoder().encode_image(inputs.keyframes[i], Posterior::sampled, cancel));
    TRITIUM_TRY_ASSIGN(std::vector<float> rows, rows_of(latents));
    clean.push_back(std::move(rows));
    shapes.push_back({latents.planes, latents.tokens, latents.height, latents.width});
    if (progress) progress(static_cast<int>(i) + 1, static_cast<int>(inputs.keyframes.size()));
  }
  return mix_anchors(clean, shapes, plan, c.rows);
}

Result<std::vector<float>> encode_sound(const Parts& parts, const InputSound& sound, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(audio_vae::EncodedAudio latents, parts.audio_encoder().encode(sound.left, sound.right, cancel));
  return std::move(latents.values);
}

Result<void> encode_references(const Parts& parts, const ModelInfo& model, const Inputs& inputs, const Plan& plan, Conditioning& c,
                               const CancelToken* cancel, const Step& progress) {
  std::vector<std::vector<float>> clean;
  std::vector<VideoLatentShape> shapes;
  int done = 0;
  for (const InputReference& given : inputs.references) {
    if (given.kind != Kind::audio) {
      TRITIUM_TRY_ASSIGN(
          const TokenGrid latents,
          given.kind == Kind::image
              ? parts.video_encoder().encode_image(given.frames.front(), Posterior::sampled, cancel)
              : parts.video_encoder().encode_video(source_of(given.frames), video_vae::FrameRule::reference, Posterior::sampled, cancel));
      TRITIUM_TRY_ASSIGN(std::vector<float> rows, rows_of(latents));
      clean.push_back(std::move(rows));
      shapes.push_back({latents.planes, latents.tokens, latents.height, latents.width});
    }
    if (!given.sound.empty()) {
      TRITIUM_TRY_ASSIGN(const std::vector<float> latents, encode_sound(parts, given.sound, cancel));
      const AudioLatentShape shape{plan.audio_dim, sound_latents(given.sound, model.audio_vae_config.samples_per_latent())};
      TRITIUM_TRY_ASSIGN(const std::vector<float> rows, patchify_audio(shape, latents));
      c.rows.audio.insert(c.rows.audio.end(), rows.begin(), rows.end());
    }
    if (progress) progress(++done, static_cast<int>(inputs.references.size()));
  }
  return mix_anchors(clean, shapes, plan, c.rows);
}

// The clip's sound at exactly the plan's number of latents; what is missing repeats the last latent and will be regenerated.
Result<std::vector<float>> clip_sound(const Parts& parts, const Inputs& inputs, const ModelInfo& model, const Plan& plan,
                                      const CancelToken* cancel) {
  InputSound sound = inputs.sound;
  const auto samples = static_cast<std::size_t>(plan.samples);
  if (sound.left.size() > samples) {
    sound.left.resize(samples);
    sound.right.resize(samples);
  }
  TRITIUM_TRY_ASSIGN(const std::vector<float> latents, encode_sound(parts, sound, cancel));
  const auto have = static_cast<std::size_t>(sound_latents(sound, model.audio_vae_config.samples_per_latent())),
             want = static_cast<std::size_t>(plan.audio_latents);
  std::vector<float> out;
  for (std::size_t row = 0; row < latents.size() / have; ++row)
    for (std::size_t i = 0; i < want; ++i) out.push_back(latents[row * have + std::min(i, have - 1)]);
  return out;
}

Result<void> encode_clip(const Parts& parts, const ModelInfo& model, const Inputs& inputs, const Request& request, const Plan& plan,
                         Conditioning& c, const CancelToken* cancel, const Step& progress) {
  const ClipLength length{plan.frames, plan.latent_frames, plan.audio_latents};
  if (!inputs.clip.empty()) {
    std::vector<FrameRegion> regions;
    for (const auto& [begin, end] : request.retake.frames) regions.push_back({begin, end});
    TRITIUM_TRY_ASSIGN(c.masks.video, video_retake_mask(regions, length, std::min(inputs.clip_frames, plan.frames)));
    TRITIUM_TRY_ASSIGN(TokenGrid latents, parts.video_encoder().encode_video(source_of(inputs.clip), video_vae::FrameRule::every_frame,
                                                                             Posterior::mean, cancel, progress));
    c.clean.video = std::move(latents.values);
  }
  if (inputs.mode == Mode::sound_for_video) return {};  // all of the sound is new
  if (inputs.sound.empty()) {
    if (request.retake.seconds.empty()) return {};  // nothing to keep: the sound is generated
    return Error{ErrorCode::usage, fmt::format("'{}' has no sound of which a part could be kept", request.retake.video.string()),
                 "retake_seconds", "leave --retake-seconds out: sound is made for the whole clip"};
  }
  std::vector<SecondsRegion> regions;
  for (const auto& [begin, end] : request.retake.seconds) regions.push_back({begin, end});
  const int have = sound_latents(inputs.sound, model.audio_vae_config.samples_per_latent());
  TRITIUM_TRY_ASSIGN(c.masks.audio, audio_retake_mask(regions, length, std::min(have, plan.audio_latents)));
  TRITIUM_TRY_ASSIGN(c.clean.audio, clip_sound(parts, inputs, model, plan, cancel));
  return {};
}

}  // namespace

Result<PromptInputs> prepare_prompt(const Tokenizer& tokenizer, const ModelInfo& model, const std::string& prompt, const Inputs& inputs) {
  const PresentationLimits limits{model.text_config.max_positions};
  if (inputs.mode == Mode::ref2va) return prepare_references(tokenizer, model, prompt, inputs, limits);
  PromptInputs out;
  if (inputs.keyframes.empty()) {
    TRITIUM_TRY_ASSIGN(out.presentation, present_t2va(tokenizer, prompt, limits));
    return out;
  }
  TRITIUM_TRY_ASSIGN(const VisionSetup setup, vision_for(tokenizer, model));
  std::vector<PatchGrid> grids;
  for (const Picture& picture : inputs.keyframes) {
    TRITIUM_TRY_ASSIGN(PatchRows rows, image_patches(picture, setup));
    grids.push_back(rows.grid);
    out.images.push_back(std::move(rows));
  }
  TRITIUM_TRY_ASSIGN(out.presentation, present_fl2va(tokenizer, prompt, grids, limits));
  return out;
}

std::int64_t ConditionShapes::rows(int latent_height, int latent_width) const {
  std::int64_t sum = static_cast<std::int64_t>(keyframes.size()) * (latent_height / kPatch) * (latent_width / kPatch);
  for (const Reference& r : references) sum += r.visual.rows() + 2 * std::int64_t{r.audio_latents};
  return sum;
}

ConditionShapes condition_shapes(const Inputs& inputs, const ModelInfo& model) {
  ConditionShapes out;
  out.keyframes = inputs.keyframe_places;
  const int channels = model.video_vae_config.latent_channels;
  for (const InputReference& given : inputs.references) {
    Reference reference;
    reference.kind = given.kind == Kind::image   ? ReferenceKind::image
                     : given.kind == Kind::video ? ReferenceKind::video
                                                 : ReferenceKind::audio;
    if (given.kind != Kind::audio) {
      const int tokens = given.kind == Kind::image ? 1 : video_latents_of(align_frames_down(static_cast<int>(given.frames.size())));
      reference.visual = {channels, tokens, given.frames.front().height / kPixelsPerLatent, given.frames.front().width / kPixelsPerLatent};
    } else {
      reference.visual = {channels, 0, 0, 0};
    }
    reference.audio_latents = sound_latents(given.sound, model.audio_vae_config.samples_per_latent());
    out.references.push_back(reference);
  }
  return out;
}

Result<VisionInputs> look_at_pictures(const Parts& parts, const PromptInputs& prompt, const CancelToken* cancel) {
  VisionInputs out;
  if (prompt.images.empty() && prompt.videos.empty()) return out;
  out.pads = parts.vision().config().pads;
  TRITIUM_TRY_ASSIGN(out.images, encode_pictures(parts.vision(), VisionModality::image, prompt.images, cancel));
  TRITIUM_TRY_ASSIGN(out.videos, encode_pictures(parts.vision(), VisionModality::video, prompt.videos, cancel));
  return out;
}

Result<void> encode_prompt(const Parts& parts, const PromptInputs& prompt, const VisionInputs& pictures, Conditioning& c,
                           const CancelToken* cancel, const Step& progress) {
  const Presentation& p = prompt.presentation;
  for (const std::int32_t tag : p.tags) c.text_tags.push_back(tag == 0 ? Modality::video : Modality::text);
  if (prompt.images.empty() && prompt.videos.empty()) {
    TRITIUM_TRY_ASSIGN(c.text, parts.text().encode(p.ids, p.positions, cancel, progress));
  } else {
    TRITIUM_TRY_ASSIGN(c.text, parts.text().encode(p.ids, p.positions, pictures, cancel, progress));
  }
  return {};
}

Result<void> encode_inputs(const Parts& parts, const ModelInfo& model, const Inputs& inputs, const Request& request, const Plan& plan,
                           Conditioning& c, const CancelToken* cancel, const Step& progress) {
  c.shapes = condition_shapes(inputs, model);
  if (!inputs.keyframes.empty()) return encode_keyframes(parts, inputs, plan, c, cancel, progress);
  if (!inputs.references.empty()) return encode_references(parts, model, inputs, plan, c, cancel, progress);
  return encode_clip(parts, model, inputs, request, plan, c, cancel, progress);
}

}  // namespace tritium
