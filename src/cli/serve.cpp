// The service: jobs, workers and HTTP in one process, until a signal ends it.
#include "base/try.h"
#include "cli/common.h"
#include "cli/key_limits.h"
#include "cli/serve_control.h"
#include "cli/serve_options.h"
#include "cli/serve_routes.h"
#include "server/http/server.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

namespace tritium::cli {
namespace {

using server::metrics::Gauges;
using server::metrics::HttpCounts;

// One line on standard error per event; threads do not mix theirs.
class Log {
 public:
  explicit Log(bool json) : json_(json) {}

  void say(const std::string& text) const {
    if (!json_) return write(fmt::format("{} {}\n", now(), text));
    const nlohmann::ordered_json line{{"time", now()}, {"message", text}};
    write(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }
  void request(const http::AccessRecord& record) const {
    if (!json_) return write(fmt::format("{} {}\n", now(), http::access_text(record)));
    write(fmt::format("{{\"time\":\"{}\",{}\n", now(), http::access_json(record).substr(1)));
  }

 private:
  static std::string now() {
    const auto time = std::chrono::system_clock::now();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds).count();
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), millis);
  }
  static void write(const std::string& line) { std::fwrite(line.data(), 1, line.size(), stderr); }

  bool json_;
};

// Open connections, as soon as there is a server to ask.
struct Gauge {
  std::atomic<http::Server*> server = nullptr;
  [[nodiscard]] Gauges read() const {
    const http::Server* now = server.load();
    if (now == nullptr) return {};
    const http::ServerCounters counters = now->counters();
    return {counters.connections, counters.busy_handlers};
  }
};

void warn(const ServeOptions& o, const Log& log) {
  if (!is_loopback(o.http.address) && o.keys.empty())
    log.say("warning: everybody who reaches " + o.http.address + " may use this server; give --keys FILE");
  if (!is_loopback(o.http.address) && o.certificate.empty())
    log.say("warning: keys and clips travel unencrypted; give --tls-cert and --tls-key, or put a proxy with TLS in front");
  if (o.model.model.empty() && o.model.dit.empty())
    log.say("no model given (-m DIR): using the bundled demo model, a tiny one for trying things out");
}

Result<void> serve(ServeOptions& o) {
  const CancelToken& end = interrupt_token();
  TRITIUM_TRY(read_serve_options(o));
  const Log log(o.log_format == "json");
  warn(o, log);
  TRITIUM_TRY_ASSIGN(const std::unique_ptr<JobService> service, JobService::start(o.service));
  std::unique_ptr<JobService> limited;
  if (o.http.keys) limited = with_key_limits(*service, o.http.keys);

  const auto counts = std::make_shared<HttpCounts>();
  const auto gauge = std::make_shared<Gauge>();
  o.http.access_log = [counts, log, quiet = o.no_access_log](const http::AccessRecord& record) {
    counts->count(record.method, record.path, record.status, record.seconds);
    if (!quiet) log.request(record);
  };
  o.http.public_paths = public_paths();
  RouteOptions routes{o.http.spool, o.urls, o.sync_seconds, o.public_url, !o.certificate.empty(), o.http.keys != nullptr, counts, [gauge] {
                        return gauge->read();
                      }};
  TRITIUM_TRY_ASSIGN(const std::unique_ptr<http::Server> server,
                     http::Server::start(o.http, all_routes(limited ? *limited : *service, routes)));
  gauge->server = server.get();
  TRITIUM_TRY(write_control_file(o.service.data, {::getpid(), server->url(), version()}));
  log.say(fmt::format("listening at {}, jobs in {}", server->url(), o.service.data.string()));

  while (!end.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  log.say(fmt::format("shutting down; running jobs have {:g} s, a second signal ends at once", o.service.drain_seconds));
  service->stop(o.service.drain_seconds);  // meanwhile clients are told so, and may fetch what is finished
  constexpr double kLastAnswers = 5;       // seconds
  server->stop(kLastAnswers);
  gauge->server = nullptr;
  remove_control_file(o.service.data);
  log.say("ended");
  return {};
}

}  // namespace

Runner add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  add_serve_options(app, *options);
  return [options] {
    const auto served = serve(*options);
    return served.ok() ? 0 : fail(served.error());
  };
}

}  // namespace tritium::cli
