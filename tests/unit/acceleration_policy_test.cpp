// Which evaluations are computed, and what stands in for the others: against the same rules written out again, number by number.
#include "sampler/block_choice.h"
#include "sampler/easy_cache.h"
#include "sampler/velocity_reuse.h"

#include <gtest/gtest.h>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace tritium {
namespace {

using Floats = std::vector<float>;

// ---- every K-th

TEST(EveryKth, FirstAndLastAlwaysAndOneMeansAll) {
  for (int steps = 1; steps <= 40; ++steps)
    for (int every = 1; every <= 50; ++every) {
      int count = 0;
      for (int step = 0; step < steps; ++step) {
        const bool computed = is_kth(step, steps, every);
        count += computed ? 1 : 0;
        if (step == 0 || step == steps - 1 || every == 1) { EXPECT_TRUE(computed) << steps << " " << every << " " << step; }
        if (step > 0 && step < steps - 1) { EXPECT_EQ(computed, step % every == 0) << steps << " " << every << " " << step; }
      }
      EXPECT_EQ(count_kth(steps, every), count);
    }
  EXPECT_EQ(count_kth(20, 3), 8);  // 0 3 6 9 12 15 18 19
}

// ---- runs over made-up velocities

// A run with Euler steps, as the pipeline does it, by a model that is a plain function.
class Trajectory {
 public:
  using Model = std::function<Latents(int step, const Latents& x)>;

  Trajectory(int steps, Model model) : video(*make_schedule(steps, 12)), audio(*make_schedule(steps, 3)), model_(std::move(model)) {}

  // "m" computed, "e" estimated, "c" core.
  std::string go(EvaluationPolicy& policy, Latents& x, int first, int end) const {
    std::string out;
    for (int step = first; step < end; ++step) {
      const VelocitySource source = policy.choose(step, x);
      Latents v;
      if (source == VelocitySource::estimate) {
        v = policy.estimate(step, x);
      } else {
        v = model_(step, x);
        if (source == VelocitySource::model) policy.learn(step, x, v);
      }
      const auto advance = [](Floats& at, const Floats& by, float length) {
        for (std::size_t i = 0; i < at.size(); ++i) at[i] -= by[i] * length;
      };
      advance(x.video, v.video, video.next_sigma(step) - video.sigma(step));
      advance(x.audio, v.audio, audio.next_sigma(step) - audio.sigma(step));
      out += source == VelocitySource::model ? 'm' : source == VelocitySource::core ? 'c' : 'e';
    }
    return out;
  }

  Schedule video, audio;

 private:
  Model model_;
};

Latents random_latents(std::size_t video, std::size_t audio, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Latents out{Floats(video), Floats(audio)};
  for (Floats* each : {&out.video, &out.audio})
    for (float& value : *each) value = normal(random);
  return out;
}

// Changes slowly, and not in a straight line.
Latents smooth_model(int step, const Latents& x) {
  Latents out = x;
  for (float& v : out.video) v = std::sin(0.5f * v) + 0.02f * static_cast<float>(step);
  for (float& v : out.audio) v = 0.3f * v + 0.01f * static_cast<float>(step * step);
  return out;
}

// ---- velocity reuse

TEST(VelocityReuse, ExtrapolatesAsWrittenAndWithinLimits) {
  EXPECT_FLOAT_EQ(extrapolation(0.7f, 0.8f, 1.0f), 0.5f);
  EXPECT_FLOAT_EQ(extrapolation(0.1f, 0.8f, 0.9f), 2.0f) << "at most 2";
  EXPECT_FLOAT_EQ(extrapolation(1.5f, 0.8f, 0.9f), -2.0f) << "at least -2";
  EXPECT_EQ(extrapolate(Floats{3, -1}, Floats{1, 1}, 0.5f), (Floats{4, -2}));
}

TEST(VelocityReuse, StepsBetweenAreThoseOfTheRule) {
  constexpr int kSteps = 12, kEvery = 3;
  std::vector<Latents> given;
  const Trajectory run(kSteps, [&given](int step, const Latents& x) {
    given.push_back(smooth_model(step, x));
    return given.back();
  });
  VelocityReuse policy(kEvery, run.video, run.audio);
  Latents x = random_latents(9, 5, 1);
  EXPECT_EQ(run.go(policy, x, 0, 2), "me");
  EXPECT_EQ(policy.estimate(1, x).video, given[0].video) << "one evaluation: its velocity";
  EXPECT_EQ(run.go(policy, x, 2, 4), "em");
  // Steps 4 and 5 from the evaluations at 0 and 3, each stream by its own levels.
  for (const int step : {4, 5}) {
    const Latents made = policy.estimate(step, x);
    const auto expect = [&](const Schedule& s, const Floats& have, const Floats& last, const Floats& previous) {
      const float rho =
          std::min(2.0f, std::max(-2.0f, (s.sigmas[static_cast<std::size_t>(step)] - s.sigmas[3]) / (s.sigmas[3] - s.sigmas[0])));
      ASSERT_GT(rho, 0);
      for (std::size_t i = 0; i < have.size(); ++i) EXPECT_FLOAT_EQ(have[i], last[i] + rho * (last[i] - previous[i])) << step;
    };
    expect(run.video, made.video, given[1].video, given[0].video);
    expect(run.audio, made.audio, given[1].audio, given[0].audio);
  }
  EXPECT_EQ(run.go(policy, x, 4, kSteps), "eemeemem");
  EXPECT_EQ(given.size(), static_cast<std::size_t>(count_kth(kSteps, kEvery)));
}

TEST(VelocityReuse, EveryOneIsTheSameAsOff) {
  const Trajectory run(10, smooth_model);
  EvaluationPolicy off;
  VelocityReuse one(1, run.video, run.audio);
  Latents plain = random_latents(40, 30, 2), reused = plain;
  EXPECT_EQ(run.go(off, plain, 0, 10), std::string(10, 'm'));
  EXPECT_EQ(run.go(one, reused, 0, 10), std::string(10, 'm'));
  EXPECT_EQ(plain.video, reused.video);
  EXPECT_EQ(plain.audio, reused.audio);
}

// ---- core reuse

TEST(CoreReuse, BlocksRunAtEveryKthAndOnlyThereARunCanBeTakenUp) {
  const Trajectory run(11, smooth_model);
  CoreReuse policy(11, 4);
  Latents x = random_latents(4, 4, 3);
  EXPECT_EQ(run.go(policy, x, 0, 11), "mcccmcccmcm");
  for (int next = 1; next < 11; ++next) EXPECT_EQ(policy.memory(next).has_value(), next == 4 || next == 8 || next == 10) << next;
}

// ---- EasyCache

// The rule once more, from the values of all steps.
class Again {
 public:
  Again(EasyCacheOptions options, int steps, const LatentElements& elements) : options_(options), steps_(steps), elements_(elements) {}

  bool computes(int step, const Latents& x) {
    const double at = static_cast<double>(step) / steps_;
    if (step == 0 || step == steps_ - 1 || in_.size() < 2 || at < options_.start || at >= options_.end) return true;
    bool below = true;
    for (const auto member : {&Latents::video, &Latents::audio}) {
      const auto& chosen = member == &Latents::video ? elements_.video : elements_.audio;
      if (chosen.empty()) continue;
      const auto mean = [&](const Floats& a, const Floats* b) {
        double sum = 0;
        for (const std::size_t i : chosen) sum += std::abs(b == nullptr ? a[i] : a[i] - (*b)[i]);
        return sum / static_cast<double>(chosen.size());
      };
      const Latents &in = in_.back(), &out = out_.back(), &before_in = in_[in_.size() - 2], &before_out = out_[out_.size() - 2];
      const double k = mean(out.*member, &(before_out.*member)) / mean(in.*member, &(before_in.*member));
      double& sum = member == &Latents::video ? video_ : audio_;
      sum += k * mean(x.*member, &(in.*member)) / mean(out.*member, nullptr);
      below = below && sum < options_.threshold;
    }
    return !below;
  }
  void evaluated(const Latents& x, const Latents& velocity) {
    in_.push_back(x);
    out_.push_back(velocity);  // of either sign: only magnitudes count
    video_ = audio_ = 0;
  }

 private:
  EasyCacheOptions options_;
  int steps_;
  LatentElements elements_;
  std::vector<Latents> in_, out_;
  double video_ = 0, audio_ = 0;
};

LatentElements every_eighth(std::size_t video, std::size_t audio) {
  LatentElements out;
  for (std::size_t i = 0; i < video; i += kEasyCacheStride) out.video.push_back(i);
  for (std::size_t i = 0; i < audio; i += kEasyCacheStride) out.audio.push_back(i);
  return out;
}

TEST(EasyCache, DecidesAsTheRuleWrittenOutAgain) {
  int skipped = 0, computed = 0;
  for (const int steps : {9, 20, 50})
    for (const double threshold : {0.0, 0.02, 0.05, 0.2, 1.0}) {
      const EasyCacheOptions options{threshold, 0.15, 0.95};
      const LatentElements elements = every_eighth(160, 80);
      const Trajectory run(steps, smooth_model);
      EasyCache policy(options, steps, elements);
      Again again(options, steps, elements);
      Latents x = random_latents(160, 80, 4);
      for (int step = 0; step < steps; ++step) {
        const Latents before = x;
        const bool expected = again.computes(step, before);
        const std::string made = run.go(policy, x, step, step + 1);
        ASSERT_EQ(made, expected ? "m" : "e") << steps << " steps, threshold " << threshold << ", step " << step;
        if (expected) again.evaluated(before, smooth_model(step, before));
        (expected ? computed : skipped) += 1;
        if (threshold == 0) { ASSERT_TRUE(expected); }
      }
    }
  EXPECT_GT(skipped, 30) << "else this says nothing";
  EXPECT_GT(computed, 30);
}

TEST(EasyCache, ASkippedStepAddsTheLastDifference) {
  EasyCache policy({}, 20, every_eighth(16, 16));
  const Latents in = random_latents(16, 16, 5), velocity = random_latents(16, 16, 6), x = random_latents(16, 16, 7);
  policy.learn(0, in, velocity);
  const Latents made = policy.estimate(1, x);
  for (std::size_t i = 0; i < 16; ++i) {
    // The output is noise-ward: out = -v, here x + (out - in).
    EXPECT_FLOAT_EQ(-made.video[i], x.video[i] + (-velocity.video[i] - in.video[i]));
    EXPECT_FLOAT_EQ(-made.audio[i], x.audio[i] + (-velocity.audio[i] - in.audio[i]));
  }
}

TEST(EasyCache, WhatIsNotFiniteIsAlwaysComputed) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kNan, kInf, -kInf})
    for (const bool in_audio : {false, true})
      for (const bool in_output : {false, true}) {
        EasyCache policy({3, 0, 1}, 20, every_eighth(16, 16));
        Latents x = random_latents(16, 16, 8), v = x;
        policy.learn(0, x, v);
        Latents next = x;
        for (float& value : next.video) value += 1e-3f;
        for (float& value : next.audio) value += 1e-3f;
        Latents out = v;
        for (float& value : out.video) value += 1e-6f;
        for (float& value : out.audio) value += 1e-6f;
        ASSERT_EQ(EasyCache(policy).choose(1, x), VelocitySource::model) << "one evaluation is not enough";
        {
          EasyCache well = policy;
          well.learn(1, next, out);
          ASSERT_EQ(well.choose(2, next), VelocitySource::estimate) << "without it a step is skipped";
        }
        Latents& broken = in_output ? out : next;
        (in_audio ? broken.audio : broken.video)[8] = bad;
        policy.learn(1, next, out);
        EXPECT_EQ(policy.choose(2, x), VelocitySource::model) << bad << in_audio << in_output;
        EXPECT_EQ(policy.choose(2, next), VelocitySource::model);
      }
  // A stream that does not move gives no rate: 0/0.
  EasyCache still({3, 0, 1}, 20, every_eighth(16, 16));
  const Latents x = random_latents(16, 16, 9);
  still.learn(0, x, x);
  still.learn(1, x, x);
  EXPECT_EQ(still.choose(2, x), VelocitySource::model);
}

TEST(EasyCache, AStreamThatIsKeptIsNotLookedAt) {
  LatentElements only_audio = every_eighth(16, 64);
  only_audio.video.clear();
  const Trajectory run(30, [](int step, const Latents& x) {
    Latents out = smooth_model(step, x);
    out.video.assign(out.video.size(), std::numeric_limits<float>::quiet_NaN());
    return out;
  });
  EasyCache policy({0.2, 0.15, 0.95}, 30, only_audio);
  Latents x = random_latents(16, 64, 10);
  EXPECT_NE(run.go(policy, x, 0, 30).find('e'), std::string::npos);
}

// ---- going on from what is remembered

TEST(PolicyMemory, ARunThatIsTakenUpAtAnyStepHasTheSameBits) {
  constexpr int kSteps = 20;
  const Trajectory run(kSteps, smooth_model);
  const auto policies = [&] {
    std::vector<std::unique_ptr<EvaluationPolicy>> out;
    out.push_back(std::make_unique<EvaluationPolicy>());
    out.push_back(std::make_unique<VelocityReuse>(4, run.video, run.audio));
    out.push_back(std::make_unique<EasyCache>(EasyCacheOptions{0.1, 0.1, 0.95}, kSteps, every_eighth(24, 16)));
    return out;
  };
  for (std::size_t which = 0; which < policies().size(); ++which) {
    Latents whole = random_latents(24, 16, 11);
    const std::string made = run.go(*policies()[which], whole, 0, kSteps);
    for (int stop = 1; stop < kSteps; ++stop) {
      Latents x = random_latents(24, 16, 11);
      const auto first = std::move(policies()[which]), second = std::move(policies()[which]);
      std::string parts = run.go(*first, x, 0, stop);
      ASSERT_TRUE(second->restore(first->memory(stop).value()).ok());
      parts += run.go(*second, x, stop, kSteps);
      EXPECT_EQ(parts, made) << which << " " << stop;
      EXPECT_EQ(x.video, whole.video) << which << " " << stop;
      EXPECT_EQ(x.audio, whole.audio) << which << " " << stop;
    }
  }
}

TEST(PolicyMemory, ThatOfAnotherRunIsRefused) {
  const Trajectory run(9, smooth_model);
  EXPECT_FALSE(VelocityReuse(2, run.video, run.audio).restore({}).ok());
  EasyCache policy({}, 9, every_eighth(16, 16));
  EXPECT_FALSE(policy.restore({}).ok());
  EXPECT_FALSE(policy.restore(EasyCache({}, 9, every_eighth(8, 8)).memory(1).value()).ok());
}

// ---- blocks

TEST(ChooseBlocks, TheFirstTwoTheLastAndTheLargestOfTheRest) {
  const std::vector<double> magnitudes = {0, 0, 5, 1, 4, 1, 9, 0};
  EXPECT_EQ(choose_blocks(magnitudes, 3), (std::vector<int>{0, 1, 7}));
  EXPECT_EQ(choose_blocks(magnitudes, 4), (std::vector<int>{0, 1, 6, 7}));
  EXPECT_EQ(choose_blocks(magnitudes, 6), (std::vector<int>{0, 1, 2, 4, 6, 7}));
  EXPECT_EQ(choose_blocks(magnitudes, 7), (std::vector<int>{0, 1, 2, 3, 4, 6, 7})) << "of equal ones the first";
  EXPECT_EQ(choose_blocks(magnitudes, 8), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// ---- what statistics are taken over

TEST(Regenerated, EveryEighthOfWhatIsMadeAnew) {
  const VideoLatentShape video{2, 3, 2, 2};
  const AudioLatentShape audio{4, 5};
  const Latents zeros{Floats(24), Floats(40)};
  const Retake all = *Retake::make(video, audio, {}, {}, zeros);
  EXPECT_EQ(all.regenerated(8).video, (std::vector<std::size_t>{0, 8, 16}));
  EXPECT_EQ(all.regenerated(8).audio.size(), 5u);
  const Retake part = *Retake::make(video, audio, {{0, 1, 0}, {0, 0, 0, 0, 0}}, zeros, zeros);
  EXPECT_EQ(part.regenerated(1).video, (std::vector<std::size_t>{4, 5, 6, 7, 16, 17, 18, 19})) << "[channels, frames, height, width]";
  EXPECT_EQ(part.regenerated(4).video, (std::vector<std::size_t>{4, 16}));
  EXPECT_TRUE(part.regenerated(1).audio.empty());
}

}  // namespace
}  // namespace tritium
