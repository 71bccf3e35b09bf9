#include "cli/serve_options.h"

#include "base/try.h"

#include <fmt/format.h>
#include <cstdlib>

namespace tritium::cli {
namespace fs = std::filesystem;

namespace {

constexpr int kPort = 8000;

void add_listening(CLI::App& app, ServeOptions& o) {
  const char* group = "Listening";
  app.add_option("--host", o.http.address, "Address to listen at; 0.0.0.0 or :: for all (then give --keys)")
      ->capture_default_str()
      ->envname("TRITIUM_HOST")
      ->group(group);
  app.add_option("--port", o.http.port, "Port; 0 = one that is free")->check(between(0, 65535))->envname("TRITIUM_PORT")->group(group);
  app.add_option("--tls-cert", o.certificate, "Certificate chain, PEM")->check(not_empty())->group(group);
  app.add_option("--tls-key", o.private_key, "Its private key, PEM")->check(not_empty())->group(group);
  app.add_option("--keys", o.keys, "File of API keys, one \"name key [max_queued=N] [requests_per_minute=N]\" per line")
      ->check(not_empty())
      ->envname("TRITIUM_KEYS")
      ->group(group);
  app.add_option("--allow-host", o.http.hosts, "Name under which clients may reach the server, NAME[:PORT]; repeatable")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--allow-origin", o.http.origins, "Origin of a page elsewhere that may use the interface, or *; repeatable")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--public-url", o.public_url, "Address by which clients reach the server, for links in answers (behind a proxy)")
      ->check(not_empty())
      ->group(group);
  app.add_option("--max-body", o.max_body_mib, "MiB of a request")->check(between(0.01, 4096))->capture_default_str()->group(group);
  app.add_option("--max-connections", o.http.limits.connections, "Open connections")
      ->check(between(1, 65536))
      ->capture_default_str()
      ->group(group);
}

void add_jobs(CLI::App& app, ServeOptions& o) {
  const char* group = "Jobs";
  ServiceOptions& s = o.service;
  app.add_option("--data", o.data, "Folder for jobs and their files; below ~/.local/state when absent")
      ->check(not_empty())
      ->envname("TRITIUM_DATA")
      ->group(group);
  app.add_option("--worker", o.workers, "A worker process on this device (as --device); repeatable, one when absent")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--max-queued", s.max_queued, "Jobs that may wait")->check(between(1, 1e6))->capture_default_str()->group(group);
  app.add_option("--max-attempts", s.max_attempts, "Attempts of a job whose worker dies or hangs")
      ->check(between(1, 100))
      ->capture_default_str()
      ->group(group);
  app.add_option("--checkpoint-steps", s.checkpoint_steps, "Denoising steps between checkpoints; 0 = only after stages")
      ->check(between(0, 1000))
      ->capture_default_str()
      ->group(group);
  app.add_option("--stall-seconds", s.stall_seconds, "A worker that says nothing for so long is ended")
      ->check(between(1, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--drain-seconds", s.drain_seconds, "On shutdown, a running job may finish in this time")
      ->check(between(0, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_option("--keep-days", s.keep_days, "Finished jobs are kept so long; 0 = for ever")
      ->check(between(0, 1e5))
      ->capture_default_str()
      ->group(group);
  app.add_option("--keep-count", s.keep_count, "Finished jobs that are kept; 0 = any number")->check(between(0, 1e9))->group(group);
  app.add_option("--keep-gib", o.keep_gib, "GiB of their files; 0 = any")->check(between(0, 1e9))->group(group);
  app.add_option("--sync-seconds", o.sync_seconds, "Longest wait of POST /v1/videos/sync")
      ->check(between(0, 1e6))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--no-previews", o.no_previews, "No pictures of running jobs")->group(group);
}

void add_inputs_and_log(CLI::App& app, ServeOptions& o) {
  const char* group = "Inputs by address";
  app.add_flag("--allow-url-inputs", o.urls.allowed, "Fetch http: and https: addresses that requests name")->group(group);
  app.add_option("--url-host", o.urls.hosts, "Private host that may be fetched from all the same, HOST[:PORT]; repeatable")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--url-max", o.url_mib, "MiB of one such file")->check(between(0.01, 4096))->capture_default_str()->group(group);
  app.add_option("--url-seconds", o.urls.max_seconds, "Seconds for one such file")
      ->check(between(0.1, 3600))
      ->capture_default_str()
      ->group(group);
  app.add_option("--log-format", o.log_format, "Lines of the log on standard error: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->envname("TRITIUM_LOG_FORMAT")
      ->group("Log");
  app.add_flag("--no-access-log", o.no_access_log, "No line per request")->group("Log");
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& o) {
  o.http.port = kPort;
  add_model_options(app, o.model);
  add_listening(app, o);
  add_jobs(app, o);
  add_inputs_and_log(app, o);
  // For tests: another program in place of this one's own "worker".
  app.add_option("--worker-command", o.worker_command)->take_all()->expected(1)->group("");
}

fs::path state_folder() {
  if (const char* home = std::getenv("XDG_STATE_HOME"); home != nullptr && home[0] == '/') return fs::path(home) / "tritium";
  if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') return fs::path(home) / ".local/state/tritium";
  return {};
}

bool is_loopback(const std::string& address) { return address == "localhost" || address == "::1" || address.starts_with("127."); }

Result<void> read_serve_options(ServeOptions& o) {
  constexpr double kMib = 1 << 20, kGib = 1 << 30;
  o.service.data = o.data.empty() ? state_folder() : fs::path(o.data);
  if (o.service.data.empty())
    return Error{ErrorCode::usage, "there is no home folder to keep jobs in", "data", "name a folder with --data"};
  std::error_code code;
  o.service.data = fs::absolute(o.service.data, code);
  o.service.workers = o.workers;
  o.service.worker_command = o.worker_command;
  o.service.keep_bytes = static_cast<std::uint64_t>(o.keep_gib * kGib);
  o.service.previews = !o.no_previews;
  TRITIUM_TRY_ASSIGN(o.service.engine, engine_options(o.model, /*quiet=*/true, /*references=*/false));
  o.http.spool = o.service.data / "spool";
  o.http.limits.body_bytes = static_cast<std::uint64_t>(o.max_body_mib * kMib);
  o.urls.max_bytes = static_cast<std::uint64_t>(o.url_mib * kMib);
  if (o.certificate.empty() != o.private_key.empty())
    return Error{ErrorCode::usage, "a certificate needs its key", o.certificate.empty() ? "tls-cert" : "tls-key", "give both or none"};
  o.http.certificate = o.certificate;
  o.http.private_key = o.private_key;
  if (!o.keys.empty()) { TRITIUM_TRY_ASSIGN(o.http.keys, http::ApiKeys::load(o.keys)); }
  if (!o.urls.hosts.empty() && !o.urls.allowed)
    return Error{ErrorCode::usage, "no addresses are fetched at all", "url-host", "give --allow-url-inputs, too"};
  return {};
}

}  // namespace tritium::cli
