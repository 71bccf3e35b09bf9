#include "cli/common.h"

#include "base/files.h"
#include "base/try.h"
#include "cli/acceleration_options.h"
#include "job/isolated_engine.h"
#include "job/worker_process.h"

#include <fmt/format.h>
#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>

namespace tritium::cli {
namespace fs = std::filesystem;

CLI::Validator between(double least, double most) {
  return {[least, most](const std::string& text) -> std::string {
            double value = 0;
            const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (code == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return "";
            return fmt::format("{} is not in the range {} to {}", text, least, most);
          },
          fmt::format("{}..{}", least, most)};
}

CLI::Validator not_empty() {
  return {[](const std::string& text) -> std::string { return text.empty() ? "the name is empty" : ""; }, ""};
}

int fail(const Error& error) {
  std::fprintf(stderr, "tritium: %s\n", error.text().c_str());
  return static_cast<int>(error.code);
}

void add_model_files_options(CLI::App& app, ModelOptions& o) {
  app.add_option("-m,--model", o.model,
                 "Model folder (official tree, diffusers, ComfyUI models, DiffSynth, Hugging Face cache) or the transformer's file; the "
                 "bundled demo model when absent")
      ->check(not_empty())
      ->envname("TRITIUM_MODEL");
  app.add_option("--dit", o.dit, "The diffusion transformer, instead of the one found in the model folder")->check(not_empty());
  app.add_option("--text-encoder", o.text_encoder, "The text encoder")->check(not_empty());
  app.add_option("--video-vae", o.video_vae, "The video VAE")->check(not_empty());
  app.add_option("--audio-vae", o.audio_vae, "The audio VAE")->check(not_empty());
  app.add_option("--tokenizer", o.tokenizer, "Folder with vocab.json, merges.txt and tokenizer_config.json")->check(not_empty());
  app.add_option("--partition", o.partition, "Which model the transformer is, where its name does not say: fl2va or ref2va")
      ->check(CLI::IsMember({"fl2va", "ref2va"}, CLI::ignore_case));
  app.add_option("--qkv-order", o.qkv_order, "How the transformer's attention rows lie, where it cannot be told: interleaved or plain")
      ->check(CLI::IsMember({"interleaved", "plain"}));
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  add_model_files_options(app, o);
  app.add_option("--device", o.device,
                 "Where stages run: a device of 'tritium devices', several (A+B), or by stage (text=A,dit=A*60+B*40,vae=B); the fastest "
                 "when absent")
      ->envname("TRITIUM_DEVICE");
  app.add_option("--threads", o.threads, "CPU threads; 0 = all usable processors")->check(between(0, 4096))->envname("TRITIUM_THREADS");
  app.add_option("--compute", o.compute,
                 "Matrices as f32, bf16 or int8 (rotated integer formats as integers); auto = f32 up to 1 GiB per stage, else int8 or bf16")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8"}))
      ->envname("TRITIUM_COMPUTE");
  app.add_option("--memory-budget", o.memory_budgets,
                 "Memory to use: DEVICE=GiB, may be repeated, or GiB for every device; what is free less a reserve when absent")
      ->take_all()
      ->expected(1)
      ->envname("TRITIUM_MEMORY_BUDGET");
  app.add_flag("--pin", o.pin, "Lock the weights that the CPU uses in memory (ulimit -l)");
  app.add_option("--cache-dir", o.cache_dir, "Folder for the encodings of prompts; below ~/.cache when absent, 'none' for no folder")
      ->envname("TRITIUM_CACHE_DIR");
  app.add_option("--dump-tensors", o.dump_tensors, "Write every named intermediate as safetensors into this folder")->check(not_empty());
  app.add_option("--profile", o.profile, "Write where the time went: a trace for Perfetto as FILE, a table as FILE.txt")
      ->check(not_empty());
}

fs::path demo_model() {
  std::error_code code;
  const fs::path executable = fs::read_symlink("/proc/self/exe", code);
  if (!code)
    if (const fs::path installed = executable.parent_path().parent_path() / "share/tritium/models/demo"; fs::is_directory(installed, code))
      return installed;
  return TRITIUM_DEMO_MODEL;
}

Result<EngineOptions> engine_options(const ModelOptions& o, bool quiet, bool references) {
  EngineOptions options;
  options.model = o.model;
  options.device = o.device;
  options.threads = o.threads;
  options.compute = o.compute;
  options.memory_budgets = o.memory_budgets;
  options.pin = o.pin;
  if (o.cache_dir.empty()) {
    if (const fs::path folder = cache_folder(); !folder.empty()) options.cache_folder = folder / "text";
  } else if (o.cache_dir != "none") {
    options.cache_folder = fs::path(o.cache_dir) / "text";
  }
  options.dump_tensors = o.dump_tensors;
  options.profile = o.profile;
  options.dit = o.dit;
  options.text_encoder = o.text_encoder;
  options.video_vae = o.video_vae;
  options.audio_vae = o.audio_vae;
  options.tokenizer = o.tokenizer;
  options.partition = o.partition;
  options.qkv_order = o.qkv_order;
  options.prefer_ref2va = references;
  if (o.model.empty() && o.dit.empty()) {
    options.model = demo_model();
    if (!quiet) std::fprintf(stderr, "No model given (-m DIR): using the bundled demo model, a tiny one for trying things out.\n");
  }
  return options;
}

Result<std::unique_ptr<Engine>> open_engine(const ModelOptions& o, bool quiet, bool references, bool isolate) {
  TRITIUM_TRY_ASSIGN(const EngineOptions options, engine_options(o, quiet, references));
  if (!isolate) return Engine::open(options);
  IsolationOptions isolation;
  isolation.pass_on_stderr = true;
  return open_isolated_engine(options, isolation);
}

namespace {

constexpr std::uint64_t kMaxPromptBytes = 64u << 20;  // far above what any tokenizer limit allows; keeps a wrong file out of memory

// A number too long for any integer: said here in the words the engine has for others out of range.
CLI::Validator sized(const char* range) {
  return {[range](const std::string& text) -> std::string {
            const std::size_t digits = text.find_first_not_of("+-");
            const bool whole = digits != std::string::npos && text.find_first_not_of("0123456789", digits) == std::string::npos;
            constexpr std::size_t kLongest = 18;  // digits that always fit
            if (!whole || text.size() - digits <= kLongest) return "";
            return fmt::format("{} is not possible; use {}", text, range);
          },
          "INT"};
}

// The parser itself would take -1 for 2^64-1 and cut a larger number down.
std::string check_seed(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size()) return {};
  return fmt::format("'{}' is not a whole number from 0 to {} (leave --seed out for a random one)", text,
                     std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

void add_request_options(CLI::App& app, RequestOptions& o) {
  app.add_option("prompt", o.prompt, "What to show and what to hear");
  app.add_option("-f,--prompt-file", o.prompt_file, "Read the prompt from a file; - for standard input")->check(not_empty());
  Request& r = o.request;
  app.add_option("--width", r.width, "Pixels, a multiple of 32 (raised if not)")->check(sized("1..8192"));
  app.add_option("--height", r.height, "Pixels, a multiple of 32 (raised if not)")->check(sized("1..8192"));
  auto* frames = app.add_option("--frames", r.frames, "Frames at 24 per second, 17n+5 (raised if not)");
  app.add_option("--seconds", r.seconds, "Length instead of frames")->excludes(frames);
  app.add_option("--steps", r.steps, "Evaluations of the diffusion transformer");
  app.add_option("--seed", r.seed, "Random seed; drawn and reported when absent")->check(CLI::Validator(check_seed, "UINT64"));
  app.add_option("--video-shift", r.video_shift, "Noise schedule shift of the pictures");
  app.add_option("--audio-shift", r.audio_shift, "Noise schedule shift of the sound");
  app.add_option("--noise", r.noise, "Whose random numbers a seed means: diffsynth, sglang or comfyui");
  add_input_options(app, o.inputs);
  add_lora_options(app, o.loras);
  add_acceleration_options(app, r.acceleration);
}

Result<Request> read_request(const RequestOptions& o) {
  Request request = o.request;
  request.prompt = o.prompt;
  TRITIUM_TRY(read_input_options(o.inputs, request));
  TRITIUM_TRY(read_lora_options(o.loras, request));
  if (!o.prompt.empty() && !o.prompt_file.empty())
    return Error{ErrorCode::usage, "given both as an argument and with --prompt-file", "prompt", "give one of them"};
  const bool from_stdin = o.prompt_file == "-" || (o.prompt_file.empty() && o.prompt.empty() && isatty(STDIN_FILENO) == 0);
  if (from_stdin) {
    for (std::istreambuf_iterator<char> it(std::cin), end; it != end; ++it) {
      if (request.prompt.size() == kMaxPromptBytes)
        return Error{ErrorCode::usage, fmt::format("standard input holds more than {} MiB", kMaxPromptBytes >> 20), "prompt",
                     "a prompt is a few lines of text"};
      request.prompt += *it;
    }
  } else if (!o.prompt_file.empty()) {
    auto text = read_file(o.prompt_file, kMaxPromptBytes);
    if (!text.ok()) return Error{ErrorCode::usage, text.error().message, "prompt-file", ""};
    request.prompt = std::move(*text);
  }
  // A line end that only closes the file or the pipe is not part of the prompt.
  if (from_stdin || !o.prompt_file.empty())
    for (const char end : {'\n', '\r'})
      if (request.prompt.ends_with(end)) request.prompt.pop_back();
  return request;
}

namespace {

CancelToken token;

void on_signal(int) {
  if (token.cancelled()) {
    end_workers_now();
    remove_temporary_files();
    _exit(static_cast<int>(ErrorCode::interrupted));
  }
  token.cancel();
}

}  // namespace

CancelToken& interrupt_token() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // as set by nohup, or by a shell for its background jobs
    action.sa_handler = on_signal;
    sigaction(signal, &action, nullptr);
  }
  return token;
}

}  // namespace tritium::cli
