// For other programs: computes what it is told to over a stream (docs/worker.md). Not in the main help.
#include "cli/common.h"

#include "job/worker_main.h"

#include <unistd.h>

namespace tritium::cli {

Runner add_worker(CLI::App& app) {
  auto fd = std::make_shared<std::optional<int>>();
  app.add_option("--fd", *fd, "Speak over this open descriptor, a socket, instead of standard input and output")
      ->check(between(0, 1 << 20));
  return [fd] {
    if (!*fd && isatty(STDIN_FILENO) != 0)
      return fail({ErrorCode::usage, "a worker is started by another program, which speaks to it over its standard input and output",
                   "worker", "'tritium generate --isolate on' starts one"});
    return worker_main(fd->value_or(STDIN_FILENO), fd->value_or(STDOUT_FILENO));
  };
}

}  // namespace tritium::cli
