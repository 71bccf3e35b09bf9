// What the accelerations save and cost on the demonstration model, as docs/accelerations.md has it: for each, the share of the steps and
// blocks that were computed, the processor time of denoising against that without, what the clips of the model's evaluation prompts show
// and sound like, and how far they are from the clips of the same seeds without acceleration.
//
//   bench_accelerations [--steps N]... [--prompts N] [--only NAME]
//
// On one processor. The last table is of draft pictures, at a size where full ones overlap.
#include "e2e/demo_stages.h"
#include "support/measure.h"

#include <fmt/format.h>
#include <sched.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <ctime>
#include <functional>
#include <map>

namespace {

using namespace tritium;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Signal against difference, in dB.
template <class T>
double decibels(const std::vector<T>& want, const std::vector<T>& have, double peak) {
  double difference = 0, signal = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double a = want[i], b = have[i];
    difference += (a - b) * (a - b);
    signal += peak > 0 ? peak * peak : a * a;
  }
  return 10 * std::log10(signal / difference);
}

std::vector<float> both_channels(const Clip& clip) {
  std::vector<float> out = clip.left;
  out.insert(out.end(), clip.right.begin(), clip.right.end());
  return out;
}

struct Mean {
  double sum = 0;
  int count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  [[nodiscard]] double value() const { return count == 0 ? std::nan("") : sum / count; }
};

struct Variant {
  std::string name;
  Acceleration acceleration;
};

Variant variant(std::string name, const std::function<void(Acceleration&)>& set) {
  Variant out{std::move(name), {}};
  set(out.acceleration);
  return out;
}

std::vector<Variant> variants() {
  std::vector<Variant> out{{"none", {}}};
  for (const int every : {2, 3, 4, 6})
    out.push_back(variant(fmt::format("--reuse-velocity {}", every), [&](Acceleration& a) { a.reuse_velocity = every; }));
  for (const int every : {2, 3, 4, 6})
    out.push_back(variant(fmt::format("--reuse-core {}", every), [&](Acceleration& a) { a.reuse_core = every; }));
  for (const double threshold : {0.05, 0.1, 0.2, 0.4})
    out.push_back(variant(fmt::format("--easycache {}", threshold), [&](Acceleration& a) { a.easycache = threshold; }));
  for (const int blocks : {4, 3}) out.push_back(variant(fmt::format("--blocks {}", blocks), [&](Acceleration& a) { a.blocks = blocks; }));
  out.push_back(variant("--reuse-velocity 3 --blocks 4", [](Acceleration& a) {
    a.reuse_velocity = 3;
    a.blocks = 4;
  }));
  return out;
}

struct Prompt {
  std::string text;
  std::uint64_t seed = 0;
  nlohmann::json expect;
};

std::vector<Prompt> prompts(std::size_t most) {
  std::vector<Prompt> out;
  for (const auto& each : demo::json("eval/prompts.json"))
    if (out.size() < most) out.push_back({each.at("prompt"), each.at("seed"), each.at("expect")});
  return out;
}

Request request_of(const Prompt& prompt, int steps, const Acceleration& acceleration) {
  Request out;
  out.prompt = prompt.text;
  out.seed = prompt.seed;
  out.steps = steps;
  out.acceleration = acceleration;
  return out;
}

// Of all prompts, at one number of steps.
void print_denoising(demo::Stages& demo, const std::vector<Prompt>& prompts, int steps, const std::string& only) {
  fmt::print(
      "\n{} steps\n\n| acceleration | steps computed | processor time | PSNR | sound | background | colour | motion | pan | pitch |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n",
      steps);
  std::vector<Clip> plain;
  double plain_seconds = 0;
  for (const Variant& v : variants()) {
    if (v.name != "none" && v.name.find(only) == std::string::npos) continue;
    double seconds = 0;
    Mean computed, psnr, sound;
    std::map<std::string, Mean> right;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Plan plan = demo.plan(request_of(prompts[i], steps, v.acceleration));
      const Conditioning conditioning = demo.encode(prompts[i].text);
      Latents noise = demo::require(initial_noise(plan));
      const double before = processor_seconds();
      const DenoiseState done = demo::require(denoise(*demo.dit, plan, conditioning, std::move(noise), nullptr, {}));
      seconds += processor_seconds() - before;
      computed.add(static_cast<double>(done.computed) / steps);
      Clip clip = demo.decode(plan, done.latents);
      for (const auto& [attribute, is_right] : demo::score(demo::require(demo::measure(clip)), prompts[i].expect))
        right[attribute].add(is_right ? 1 : 0);
      if (v.name == "none") {
        plain.push_back(std::move(clip));
        continue;
      }
      psnr.add(decibels(plain[i].rgb, clip.rgb, 255));
      sound.add(decibels(both_channels(plain[i]), both_channels(clip), 0));
    }
    if (v.name == "none") plain_seconds = seconds;
    const auto db = [](const Mean& mean) { return mean.count == 0 ? std::string("-") : fmt::format("{:.1f} dB", mean.value()); };
    fmt::print("| `{}` | {:.0f} % | {:.2f} | {} | {} |", v.name, 100 * computed.value(), seconds / plain_seconds, db(psnr), db(sound));
    for (const char* attribute : {"bg", "color", "motion", "pan", "pitch"}) fmt::print(" {:.3f} |", right[attribute].value());
    fmt::print("\n");
    std::fflush(stdout);
  }
}

// Draft pictures against full ones, of latents of the model's own size put side by side.
void print_decoding(demo::Stages& demo, const std::vector<Prompt>& prompts) {
  fmt::print("\n| pictures | processor time of decoding | PSNR |\n|---|---|---|\n");
  for (const auto& [side, frames] : {std::pair(96, 22), std::pair(96, 124), std::pair(480, 22), std::pair(480, 56), std::pair(768, 56)}) {
    double seconds[2] = {0, 0};
    Mean psnr;
    for (std::size_t i = 0; i < std::min<std::size_t>(4, prompts.size()); ++i) {
      Request request = request_of(prompts[i], 8, {});
      request.width = request.height = side;
      request.frames = frames;
      const Plan full = demo.plan(request);
      request.acceleration.draft = true;
      const Plan draft = demo.plan(request);
      const DenoiseState done =
          demo::require(denoise(*demo.dit, full, demo.encode(request.prompt), demo::require(initial_noise(full)), nullptr, {}));
      Clip clips[2];
      for (const int k : {0, 1}) {
        const double before = processor_seconds();
        clips[k] = demo.decode_pictures(k == 0 ? full : draft, done.latents);
        seconds[k] += processor_seconds() - before;
      }
      psnr.add(decibels(clips[0].rgb, clips[1].rgb, 255));
    }
    fmt::print("| {}x{}, {} frames | {:.2f} | {:.1f} dB |\n", side, side, frames, seconds[1] / seconds[0], psnr.value());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> steps{20, 40};
  std::size_t most = 64;
  std::string only;
  CLI::App app("Accelerations on the demonstration model");
  app.add_option("--steps", steps);
  app.add_option("--prompts", most);
  app.add_option("--only", only);
  CLI11_PARSE(app, argc, argv);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);  // processor time then holds no waiting of threads for each other
  demo::Stages demo("CPU");
  const std::vector<Prompt> chosen = prompts(most);
  for (const int each : steps) print_denoising(demo, chosen, each, only);
  print_decoding(demo, chosen);
}
