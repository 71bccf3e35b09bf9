// Several requests on one engine: what the second one costs, and what it gains when they run beside each other.
//
//   bench_session [--model DIR] [--dit FILE] [--text-encoder FILE] [--device WHERE] [--budget GiB] [--threads N]
//                 [--requests N] [--together N] [--steps N] [--same-prompt] [--size WxHxFRAMES]
//
// Prints, for every request, the seconds of its stages and what the process read from disk meanwhile; then the wall time of all.
#include "base/system.h"

#include <tritium/engine.h>

#include <fmt/format.h>
#include <atomic>
#include <CLI/CLI.hpp>
#include <fstream>
#include <mutex>
#include <thread>

namespace {

using namespace tritium;

// Bytes that this process had fetched from the storage (pages of mapped files included).
std::uint64_t bytes_read() {
  std::ifstream in("/proc/self/io");
  std::string key;
  std::uint64_t value = 0;
  while (in >> key >> value)
    if (key == "read_bytes:") return value;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  EngineOptions options;
  options.model = "models/demo";
  std::string model, dit, text, size = "96x96x22";
  double budget = 0;
  int requests = 3, together = 1, steps = 8;
  bool same_prompt = false;
  CLI::App app("Several requests on one engine");
  app.add_option("--model", model);
  app.add_option("--dit", dit);
  app.add_option("--text-encoder", text);
  app.add_option("--device", options.device);
  app.add_option("--budget", budget);
  app.add_option("--threads", options.threads);
  app.add_option("--requests", requests);
  app.add_option("--together", together);
  app.add_option("--steps", steps);
  app.add_option("--size", size);
  app.add_flag("--same-prompt", same_prompt);
  CLI11_PARSE(app, argc, argv);
  if (!model.empty()) options.model = model;
  options.dit = dit;
  options.text_encoder = text;
  if (budget > 0) options.memory_budgets = {fmt::format("{}", budget)};
  int width = 0, height = 0, frames = 0;
  if (std::sscanf(size.c_str(), "%dx%dx%d", &width, &height, &frames) != 3) return 2;

  auto engine = Engine::open(options);
  if (!engine.ok()) {
    fmt::print(stderr, "{}\n", engine.error().text());
    return 1;
  }
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("tritium_session_{}", std::rand());
  std::filesystem::create_directories(folder);
  std::mutex output_mutex;
  std::atomic<int> next = 0;
  const auto run_one = [&](int i) {
    Request request;
    request.prompt = same_prompt ? "a red circle moves to the right" : fmt::format("a red circle moves to the right, take {}", i);
    request.width = width;
    request.height = height;
    request.frames = frames;
    request.steps = steps;
    request.seed = static_cast<std::uint64_t>(i);
    request.force = true;
    const std::uint64_t before = bytes_read();
    const double start = monotonic_seconds();
    OutputOptions output;
    output.video = folder / fmt::format("{}.mp4", i);
    const auto artifact = (*engine)->generate(request, output);
    const double seconds = monotonic_seconds() - start;
    const std::lock_guard lock(output_mutex);
    fmt::print("{:3}: {:7.3f} s, {} from disk:", i, seconds, format_bytes(bytes_read() - before));
    if (artifact.ok())
      for (const StageTiming& t : artifact->timings) fmt::print(" {} {:.3f}", t.stage, t.seconds);
    else
      fmt::print(" {}", artifact.error().text());
    fmt::print("\n");
  };
  run_one(0);  // loads
  const double start = monotonic_seconds();
  next = 1;
  std::vector<std::thread> threads;
  for (int t = 0; t < together; ++t)
    threads.emplace_back([&] {
      for (int i = next++; i <= requests; i = next++) run_one(i);
    });
  for (std::thread& thread : threads) thread.join();
  fmt::print("{} requests, {} together: {:.3f} s; peak of the process {}\n", requests, together, monotonic_seconds() - start,
             format_bytes(peak_resident_bytes()));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}
