#include "pipeline/acceleration.h"

#include "base/try.h"
#include "pipeline/cost.h"
#include "sampler/block_choice.h"
#include "sampler/easy_cache.h"
#include "sampler/velocity_reuse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>

namespace tritium {
namespace {

Error usage(const char* field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), field, std::move(hint)};
}

Result<void> check_whole(const char* field, std::int64_t value, std::int64_t least, std::int64_t most, const char* meaning) {
  if (least <= value && value <= most) return {};
  return usage(field, fmt::format("{} is out of range; allowed are {} to {}", value, least, most), meaning);
}

Result<void> check_easycache(const Acceleration& a) {
  if (a.easycache && !(*a.easycache >= 0 && *a.easycache <= kMostEasyCache))
    return usage("easycache", fmt::format("{} is out of range; allowed are 0 to {}", *a.easycache, kMostEasyCache), "0.2 is usual");
  if (!(0 <= a.easycache_start && a.easycache_start < a.easycache_end && a.easycache_end <= 1))
    return usage("easycache_start", fmt::format("{} to {} is not a part of a run", a.easycache_start, a.easycache_end),
                 "give shares of the run, 0 <= start < end <= 1");
  const Acceleration usual;
  if (!a.easycache && (a.easycache_start != usual.easycache_start || a.easycache_end != usual.easycache_end))
    return usage("easycache_start", "a part of the run without easycache has no meaning", "give a threshold too");
  return {};
}

// What decides over single steps excludes each other.
Result<void> check_alone(const Acceleration& a) {
  std::vector<const char*> given;
  if (a.reuse_velocity > 1) given.push_back("reuse_velocity");
  if (a.reuse_core > 1) given.push_back("reuse_core");
  if (a.easycache) given.push_back("easycache");
  if (given.size() < 2) return {};
  return usage(given[1], fmt::format("{} exclude each other: each says which steps are computed", fmt::join(given, " and ")),
               "give one of them");
}

void warn_where_useless(Plan& plan) {
  const Acceleration& a = plan.acceleration;
  const auto warn = [&plan](const char* field, const std::string& why) { plan.warnings.push_back(fmt::format("{}: {}", field, why)); };
  const std::string few =
      fmt::format("not meant for {} steps: up to {}, one step is too unlike the next to stand for it", plan.steps, kFewSteps);
  if (plan.steps <= kFewSteps && a.reuse_velocity > 1) warn("reuse_velocity", few);
  if (plan.steps <= kFewSteps && a.easycache) warn("easycache", few);
  const bool every = plan.evaluations == plan.steps;
  if (every && a.reuse_velocity > 1) warn("reuse_velocity", fmt::format("of {} steps none is left out", plan.steps));
  if (every && a.reuse_core > 1) warn("reuse_core", fmt::format("of {} steps none is left out", plan.steps));
}

}  // namespace

Result<void> decide_acceleration(const Request& request, std::int64_t layers, Plan& plan) {
  const Acceleration& asked = request.acceleration;
  TRITIUM_TRY(
      check_whole("reuse_velocity", asked.reuse_velocity, 1, kMaxSteps, "every how many steps the transformer is computed; 1: at all"));
  TRITIUM_TRY(check_whole("reuse_core", asked.reuse_core, 1, kMostCoreReuse, "every how many steps the blocks run; 1: at all"));
  TRITIUM_TRY(check_easycache(asked));
  TRITIUM_TRY(check_alone(asked));
  if (asked.blocks)
    TRITIUM_TRY(check_whole("blocks", *asked.blocks, std::min<std::int64_t>(kBlocksThatRun, layers), layers,
                            "how many of the transformer's blocks run"));
  plan.blocks = static_cast<int>(layers);
  plan.acceleration = asked;
  if (asked.blocks && *asked.blocks == layers) plan.acceleration.blocks.reset();
  plan.evaluations = count_kth(plan.steps, static_cast<int>(std::max(asked.reuse_velocity, asked.reuse_core)));
  warn_where_useless(plan);
  return {};
}

void warn_of_useless_draft(const video_vae::VideoVaeConfig& config, Plan& plan) {
  const auto flops = [&](video_vae::Decoding decoding) {
    return video_decode_cost(config, plan.latent_frames, plan.latent_height, plan.latent_width, decoding).flops;
  };
  if (plan.acceleration.draft && flops(video_vae::Decoding::draft) >= flops(video_vae::Decoding::full))
    plan.warnings.push_back(
        fmt::format("draft: {}x{} with {} frames is decoded with as few tiles and clips as a draft has; nothing is saved", plan.width,
                    plan.height, plan.frames));
}

video_vae::Decoding decoding_of(const Plan& plan) {
  return plan.acceleration.draft ? video_vae::Decoding::draft : video_vae::Decoding::full;
}

AcceleratedShape accelerated_shape(const Plan& plan) {
  const Acceleration& a = plan.acceleration;
  AcceleratedShape out;
  out.evaluations = plan.evaluations;
  out.blocks = static_cast<int>(a.blocks.value_or(0));
  out.remembered = a.reuse_velocity > 1 || a.easycache ? 2 : 0;
  out.residual = a.reuse_core > 1;
  out.decoding = decoding_of(plan);
  return out;
}

std::unique_ptr<EvaluationPolicy> make_policy(const Plan& plan, const Retake& retake) {
  const Acceleration& a = plan.acceleration;
  if (a.reuse_velocity > 1)
    return std::make_unique<VelocityReuse>(static_cast<int>(a.reuse_velocity), Schedule{plan.video_sigmas}, Schedule{plan.audio_sigmas});
  if (a.reuse_core > 1) return std::make_unique<CoreReuse>(plan.steps, static_cast<int>(a.reuse_core));
  if (a.easycache)
    return std::make_unique<EasyCache>(EasyCacheOptions{*a.easycache, a.easycache_start, a.easycache_end}, plan.steps,
                                       retake.regenerated(kEasyCacheStride));
  return std::make_unique<EvaluationPolicy>();
}

std::string acceleration_text(const Plan& plan) {
  const Acceleration& a = plan.acceleration;
  std::vector<std::string> parts;
  if (a.reuse_velocity > 1)
    parts.push_back(fmt::format("{} of {} steps computed, velocities between them extrapolated", plan.evaluations, plan.steps));
  if (a.reuse_core > 1) parts.push_back(fmt::format("blocks run at {} of {} steps", plan.evaluations, plan.steps));
  if (a.easycache) parts.push_back(fmt::format("steps left out below a change of {:g} (easycache)", *a.easycache));
  if (a.blocks) parts.push_back(fmt::format("{} of {} blocks", *a.blocks, plan.blocks));
  if (a.draft) parts.emplace_back("draft pictures");
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace tritium
