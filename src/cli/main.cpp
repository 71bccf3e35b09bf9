// The command line: one sub-command per file.
#include "cli/common.h"

#include "base/files.h"
#include "device/abort_report.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>

namespace tritium::cli {
namespace {

// Left to itself the parser looks at the environment last; given here, flags still win over it and it wins over the config file.
void take_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const char* value = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value != nullptr && *value != '\0') option->take_last()->add_result(std::string(value));
  }
}

// Threads of a graph wait for each other after every node. By default the OpenMP library lets them spin for milliseconds, which on a busy
// machine takes the processor from the thread they wait for. It reads its settings when it is loaded, so the process starts anew once.
void let_waiting_threads_sleep(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "10000", 1);
  execv("/proc/self/exe", argv);  // returns only on failure, and then everything works as it is
}

// Weights lie in mapped files: one that is cut short, or a disk that fails, while they are in use ends the process. Nothing but plain
// system calls may be used here.
void on_unreadable_weights(int) {
  constexpr std::string_view kMessage =
      "\ntritium: a weight file could not be read any more while it was in use: it became shorter, or its disk failed\n"
      "check the file with 'tritium verify', and replace files by renaming, not by writing over them\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(static_cast<int>(ErrorCode::model));
}

int parse_failed(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_name() == "ConfigError") {
    std::string what = e.what();
    constexpr std::string_view kUnknown = "INI was not able to parse ", kSection = ".++";
    if (what.starts_with(kUnknown)) what = "unknown key or section '" + what.substr(kUnknown.size()) + "'";
    if (const std::size_t at = what.find(kSection); at != std::string::npos) what.erase(at, kSection.size());
    return fail({ErrorCode::usage, what, "config", "a section is a sub-command, its keys are the long options"});
  }
  const int status = app.exit(e);
  return status == 0 ? 0 : static_cast<int>(ErrorCode::usage);
}

}  // namespace
}  // namespace tritium::cli

int main(int argc, char** argv) {
  using namespace tritium;
  using namespace tritium::cli;
  let_waiting_threads_sleep(argv);
  CLI::App app{"Tritium: MiniMax-H3 text to video with sound"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("tritium ") + version());
  app.set_config("--config", "", "Read options from a TOML or INI file; unknown keys are errors");
  app.allow_config_extras(CLI::config_extras_mode::error);

  struct Command {
    const char *name, *help;
    Runner (*add)(CLI::App&);
    bool hidden = false;  // works, but is not listed
  };
  constexpr Command kCommands[] = {{"generate", "Make a video with sound from a prompt", add_generate},
                                   {"plan", "Show what a request would compute, without computing it", add_plan},
                                   {"serve", "Run the service: an HTTP interface, a queue and a page", add_serve},
                                   {"status", "Say how a running service does", add_status},
                                   {"stop", "Let a running service finish and end", add_stop},
                                   {"inspect", "Say what a model folder or weight file is", add_inspect},
                                   {"fetch", "Download a model", add_fetch},
                                   {"verify", "Say whether downloaded files are complete and sound", add_verify},
                                   {"convert", "Write a model in another format, pruned or with LoRAs folded in", add_convert},
                                   {"devices", "List the compute devices", add_devices},
                                   {"doctor", "Check what this machine computes, and how fast", add_doctor},
                                   {"bench", "Measure whole runs, stage by stage", add_bench},
                                   {"synth", "For developers: a model of any size with random weights", add_synth, /*hidden=*/true},
                                   {"rpc-server", "Lend a device to other processes", add_rpc_server, /*hidden=*/true},
                                   {"worker", "For other programs: compute what is asked over a stream", add_worker, /*hidden=*/true}};
  std::map<CLI::App*, Runner> runners;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    if (command.hidden) sub->group("");
    sub->fallthrough();  // --config may stand behind the sub-command
    runners[sub] = command.add(*sub);
    take_environment(*sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return parse_failed(app, e); }
  // A reader that went away or a file size limit is an error of the write concerned, not the end of the process.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  std::signal(SIGBUS, on_unreadable_weights);
  exit_on_abort(static_cast<int>(ErrorCode::device));
  try {
    const int status = runners.at(app.get_subcommands().front())();
    if (status != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return status;
    return fail({ErrorCode::failure, "cannot write to standard output: " + system_message(errno), "", ""});
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::does_not_fit, "out of memory", "", "choose a smaller size or fewer frames; see 'tritium plan'"});
  } catch (const std::exception& e) {
    return fail({ErrorCode::failure, std::string("unexpected error: ") + e.what(), "", "please report this"});
  }
}
