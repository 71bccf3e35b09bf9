// The steps of a run: from noise to clean latents.
#include "base/try.h"
#include "pipeline/acceleration.h"
#include "pipeline/guard.h"
#include "pipeline/stages.h"
#include "sampler/block_choice.h"
#include "sampler/euler.h"
#include "sampler/retake.h"
#include "sampler/schedule.h"

namespace tritium {
namespace {

// One run on one model.
class Denoising {
 public:
  static Result<Denoising> begin(const Dit& dit, const Plan& plan, const Conditioning& conditioning, const Latents& noise,
                                 const CancelToken* cancel);

  // Where evaluations are left out, and what for.
  [[nodiscard]] EvaluationPolicy& policy() const { return *policy_; }
  // Of the step, for the state before it. `computed` goes up by one where the model is evaluated.
  Result<Latents> velocity(int step, const Latents& state, int& computed, const CancelToken* cancel, const BlockProgress& progress);
  Result<void> advance(int step, const Latents& velocity, Latents& state) const;

 private:
  Denoising(const Plan& plan, Retake retake, bool keeps, DitRun run)
      : plan_(&plan),
        video_schedule_{plan.video_sigmas},
        audio_schedule_{plan.audio_sigmas},
        retake_(std::move(retake)),
        keeps_(keeps),
        policy_(make_policy(plan, retake_)),
        run_(std::move(run)) {}
  Result<void> reduce(const CancelToken* cancel);
  [[nodiscard]] VideoLatentShape video() const { return video_shape(*plan_); }
  [[nodiscard]] AudioLatentShape audio() const { return audio_shape(*plan_); }

  const Plan* plan_;
  Schedule video_schedule_, audio_schedule_;
  Retake retake_;
  bool keeps_;  // parts of a given clip
  std::unique_ptr<EvaluationPolicy> policy_;
  DitRun run_;
};

Result<Denoising> Denoising::begin(const Dit& dit, const Plan& plan, const Conditioning& conditioning, const Latents& noise,
                                   const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(PackedLayout layout, make_layout({conditioning.text_tags, video_shape(plan), plan.audio_latents,
                                                       conditioning.shapes.keyframes, conditioning.shapes.references}));
  const bool keeps = !conditioning.masks.video.empty() || !conditioning.masks.audio.empty();
  TRITIUM_TRY_ASSIGN(Retake retake, Retake::make(video_shape(plan), audio_shape(plan), conditioning.masks, conditioning.clean, noise));
  const Schedule video{plan.video_sigmas}, audio{plan.audio_sigmas};
  std::vector<RowTimesteps> timesteps;
  for (int i = 0; i < plan.steps; ++i) {
    TRITIUM_TRY_ASSIGN(RowTimesteps step, assign_timesteps(layout, video.time(i), audio.time(i), conditioning.masks));
    timesteps.push_back(std::move(step));
  }
  TRITIUM_TRY_ASSIGN(DitRun run, DitRun::begin(dit, std::move(layout), conditioning.text, conditioning.rows, std::move(timesteps), cancel));
  Denoising out(plan, std::move(retake), keeps, std::move(run));
  TRITIUM_TRY(out.reduce(cancel));
  return out;
}

// What the plan's acceleration asks of the transformer.
Result<void> Denoising::reduce(const CancelToken* cancel) {
  if (plan_->acceleration.blocks) {
    TRITIUM_TRY_ASSIGN(const std::vector<double> magnitudes, run_.gate_magnitudes(cancel));
    run_.run_only(choose_blocks(magnitudes, static_cast<int>(*plan_->acceleration.blocks)));
  }
  if (plan_->acceleration.reuse_core > 1) TRITIUM_TRY(run_.keep_residual());
  return {};
}

Result<Latents> Denoising::velocity(int step, const Latents& state, int& computed, const CancelToken* cancel,
                                    const BlockProgress& progress) {
  const VelocitySource source = policy_->choose(step, state);
  if (source == VelocitySource::estimate) return policy_->estimate(step, state);
  Latents seen = state;
  if (keeps_) TRITIUM_TRY(retake_.make_clean(seen));
  DitRows rows;
  TRITIUM_TRY_ASSIGN(rows.video, patchify_video(video(), seen.video));
  TRITIUM_TRY_ASSIGN(rows.audio, patchify_audio(audio(), seen.audio));
  const bool whole = source == VelocitySource::model;
  auto evaluated = whole ? run_.evaluate(step, rows, cancel, progress) : run_.evaluate_with_residual(step, rows, cancel);
  TRITIUM_TRY_ASSIGN(const DitRows velocity, std::move(evaluated));
  Latents out;
  TRITIUM_TRY_ASSIGN(out.video, unpatchify_video(video(), velocity.video));
  TRITIUM_TRY_ASSIGN(out.audio, unpatchify_audio(audio(), velocity.audio));
  if (!whole) return out;
  policy_->learn(step, state, out);
  ++computed;
  return out;
}

Result<void> Denoising::advance(int step, const Latents& velocity, Latents& state) const {
  TRITIUM_TRY(euler_step(state, velocity, video_schedule_, audio_schedule_, step));
  if (keeps_) TRITIUM_TRY(retake_.hold(state, video_schedule_.next_sigma(step), audio_schedule_.next_sigma(step)));
  TRITIUM_TRY(check_finite(state.video, "the video latents", step));
  return check_finite(state.audio, "the audio latents", step);
}

}  // namespace

Result<DenoiseState> denoise(const Dit& dit, const Plan& plan, const Conditioning& conditioning, Latents noise, const CancelToken* cancel,
                             const StepProgress& progress, std::optional<DenoiseState> from, const AfterStep& after_step) {
  TRITIUM_TRY_ASSIGN(Denoising run, Denoising::begin(dit, plan, conditioning, noise, cancel));
  DenoiseState now{std::move(noise), 0, 0, {}};
  if (from) {
    now = std::move(*from);
    TRITIUM_TRY(run.policy().restore(std::exchange(now.memory, {})));
  }
  for (; now.steps < plan.steps; ++now.steps) {
    const auto block_done = [&](int done, int of) {
      if (progress) progress(now.steps * of + done, plan.steps * of);
    };
    TRITIUM_TRY_ASSIGN(const Latents velocity, run.velocity(now.steps, now.latents, now.computed, cancel, block_done));
    TRITIUM_TRY(run.advance(now.steps, velocity, now.latents));
    if (after_step) after_step({now.steps + 1, now.computed, now.latents, velocity, run.policy()});
  }
  return now;
}

}  // namespace tritium
