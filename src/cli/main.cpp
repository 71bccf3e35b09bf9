// The command line: one sub-command per file.
#include "cli/common.h"

#include <cstdio>
#include <exception>
#include <map>

int main(int argc, char** argv) {
  using namespace tritium;
  using namespace tritium::cli;
  CLI::App app{"Tritium: MiniMax-H3 text to video with sound"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("tritium ") + version());
  app.set_config("--config", "", "Read options from a TOML or INI file; unknown keys are errors");
  app.allow_config_extras(CLI::config_extras_mode::error);

  struct Command {
    const char *name, *help;
    Runner (*add)(CLI::App&);
  };
  constexpr Command kCommands[] = {{"generate", "Make a video with sound from a prompt", add_generate},
                                   {"plan", "Show what a request would compute, without computing it", add_plan},
                                   {"inspect", "Say what a model folder or weight file is", add_inspect},
                                   {"devices", "List the compute devices", add_devices}};
  std::map<CLI::App*, Runner> runners;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    runners[sub] = command.add(*sub);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status == 0 ? 0 : static_cast<int>(ErrorCode::usage);
  }
  try {
    return runners.at(app.get_subcommands().front())();
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::does_not_fit, "out of memory", "", "choose a smaller size or fewer frames; see 'tritium plan'"});
  } catch (const std::exception& e) {
    return fail({ErrorCode::failure, std::string("unexpected error: ") + e.what(), "", "please report this"});
  }
}
