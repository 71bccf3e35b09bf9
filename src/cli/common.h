// What the sub-commands share. Results go to standard output, everything else to standard error.
#pragma once

#include "cli/input_options.h"
#include "cli/lora_options.h"

#include <tritium/engine.h>
#include <CLI/CLI.hpp>

namespace tritium::cli {

// A sub-command registers its options and the function that runs it; the function returns the exit status.
using Runner = std::function<int()>;
Runner add_generate(CLI::App& app);
Runner add_plan(CLI::App& app);
Runner add_inspect(CLI::App& app);
Runner add_devices(CLI::App& app);
Runner add_rpc_server(CLI::App& app);
Runner add_doctor(CLI::App& app);
Runner add_bench(CLI::App& app);
Runner add_convert(CLI::App& app);
Runner add_fetch(CLI::App& app);
Runner add_verify(CLI::App& app);
Runner add_synth(CLI::App& app);
Runner add_worker(CLI::App& app);
Runner add_serve(CLI::App& app);
Runner add_status(CLI::App& app);
Runner add_stop(CLI::App& app);

// Checks a number; the parser library's own messages differ from release to release.
CLI::Validator between(double least, double most);

// Refuses "", for names of files and folders: given on purpose it is a mistake, such as an unset variable of a script.
CLI::Validator not_empty();

// Prints "tritium: ..." and returns the exit status of the error.
int fail(const Error& error);

// Options of every command that opens a model.
struct ModelOptions {
  std::string model, device, compute = "auto", dump_tensors, profile;
  int threads = 0;
  std::vector<std::string> memory_budgets;
  std::string cache_dir;
  bool pin = false;
  std::string dit, text_encoder, video_vae, audio_vae, tokenizer, partition, qkv_order;
};
void add_model_options(CLI::App& app, ModelOptions& options);
// Of these, what says which files make up the model.
void add_model_files_options(CLI::App& app, ModelOptions& options);
// What the engine is told. Fills in the bundled demo model (and says so, unless quiet) when none was named. `references`: of a model that
// has both partitions, the one for references is taken.
Result<EngineOptions> engine_options(const ModelOptions& options, bool quiet, bool references);
// `isolate`: in a process of its own (job/isolated_engine.h).
Result<std::unique_ptr<Engine>> open_engine(const ModelOptions& options, bool quiet, bool references, bool isolate = false);

// Options of every command that takes a request.
struct RequestOptions {
  std::string prompt, prompt_file;
  Request request;
  InputOptions inputs;
  LoraOptions loras;
};
void add_request_options(CLI::App& app, RequestOptions& options);
// With the prompt from the argument, -f FILE, or standard input when it is not a terminal.
Result<Request> read_request(const RequestOptions& options);

// The folder of the bundled demo model: beside an installed binary, or in the source tree it was built from.
std::filesystem::path demo_model();

// Cancelled by SIGINT, SIGTERM and SIGHUP (unless the process was started with them ignored); a second signal ends the process at once,
// without its temporary files.
CancelToken& interrupt_token();

}  // namespace tritium::cli
