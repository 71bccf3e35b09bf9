#include "device/rpc_server.h"
#include "cli/common.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>

namespace tritium::cli {

Runner add_rpc_server(CLI::App& app) {
  auto options = std::make_shared<rpc::ServerOptions>();
  app.add_option("--host", options->host, "IPv4 address to listen on")->capture_default_str();
  app.add_option("--port", options->port, "Port; 0: any that is free")->capture_default_str();
  app.add_option("--device", options->device, "The device to lend; the CPU if none is named");
  app.add_option("--threads", options->threads, "CPU threads; 0: all usable processors")->check(between(0, 4096))->capture_default_str();
  app.add_flag("--beyond-loopback", options->beyond_loopback, "Accept connections from other machines, without any protection");
  return [options] {
    // The library reports connections on standard output, which belongs to the result.
    std::fflush(stdout);
    FILE* result = fdopen(dup(STDOUT_FILENO), "w");
    dup2(STDERR_FILENO, STDOUT_FILENO);
    std::signal(SIGTERM, [](int) { _exit(0); });
    std::signal(SIGINT, [](int) { _exit(0); });
    const Result<void> ended = rpc::serve(*options, [result](const std::string& name) {
      std::fprintf(result, "%s\n", name.c_str());
      std::fflush(result);
    });
    return fail(ended.error());
  };
}

}  // namespace tritium::cli
