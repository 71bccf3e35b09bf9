// What "tritium serve" can be told.
#pragma once

#include "cli/common.h"

#include "job/service.h"
#include "server/http/options.h"
#include "server/input/media_input.h"

namespace tritium::cli {

struct ServeOptions {
  ModelOptions model;
  ServiceOptions service;
  http::ServerOptions http;
  server::UrlPolicy urls;
  std::string data, keys, certificate, private_key, public_url, log_format = "text";
  std::vector<std::string> workers, worker_command;
  double keep_gib = 0, max_body_mib = 64, url_mib = 64, sync_seconds = 3600;
  bool no_previews = false, no_access_log = false;
};
void add_serve_options(CLI::App& app, ServeOptions& options);

// Fills in the parts from what was given. Errors (usage) name the option.
Result<void> read_serve_options(ServeOptions& options);

// Where a server keeps its jobs unless told otherwise: "$XDG_STATE_HOME/tritium", or the same below ~/.local/state; empty if there is
// neither.
std::filesystem::path state_folder();

// Only this machine reaches such an address.
bool is_loopback(const std::string& address);

}  // namespace tritium::cli
