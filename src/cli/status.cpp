// "tritium status" and "tritium stop": a service that runs somewhere else.
#include "base/files.h"
#include "base/try.h"
#include "cli/common.h"
#include "cli/serve_control.h"
#include "cli/serve_options.h"
#include "fetch/http.h"

#include <fmt/format.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

namespace tritium::cli {
namespace {

using nlohmann::json;

struct Where {
  std::string url, data, key;
  bool json = false;
  double seconds = 120;
};

Result<RunningServer> running(const Where& where) {
  const std::filesystem::path data = where.data.empty() ? state_folder() : std::filesystem::path(where.data);
  auto server = find_server(data);
  if (server) return std::move(*server);
  return Error{ErrorCode::not_found, fmt::format("no server runs with the folder '{}'", data.string()), "data",
               "name its folder with --data"};
}

Result<json> ask(const std::string& url, const std::string& key) {
  fetch::HttpSettings settings;
  settings.stall_seconds = 10;
  settings.token.value = key;
  if (const auto origin = fetch::origin_of(url)) settings.token.hosts = {origin->host, fmt::format("{}:{}", origin->host, origin->port)};
  std::string body;
  fetch::HttpHandlers handlers;
  handlers.data = [&body](std::span<const std::uint8_t> bytes) {
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return body.size() < (1u << 20);
  };
  fetch::HttpRequest request;
  request.url = url;
  const fetch::HttpOutcome outcome = fetch::HttpClient(settings).run(request, handlers);
  if (outcome.ending != fetch::Ending::complete)
    return Error{ErrorCode::failure, fmt::format("'{}' does not answer: {}", url, outcome.message), "url", "is the server running?"};
  json out = json::parse(body, nullptr, false);
  if (out.is_object() && out.contains("ready")) return out;
  return Error{ErrorCode::failure, fmt::format("'{}' answers with status {}, not as a Tritium server does", url, outcome.head.status),
               "url", outcome.head.status == 401 ? "give a key with --key or TRITIUM_KEY" : ""};
}

std::string text_of(const json& status, const std::string& url) {
  std::string out = fmt::format("{}: {}\n", url, status.value("ready", false) ? "ready" : "not ready: " + status.value("reason", ""));
  out += fmt::format("jobs: {} waiting, {} running\n", status.value("queued", 0), status.value("running", 0));
  for (const json& w : status.value("workers", json::array())) {
    const json job = w.value("job", json());
    out += fmt::format("{} on {}: {}{}, {:.0f} MiB, {} restarts\n", w.value("name", ""), w.value("device", ""), w.value("state", ""),
                       job.is_string() ? " on " + job.get<std::string>() : "", w.value("memory_bytes", 0.0) / (1 << 20),
                       w.value("restarts", 0));
  }
  return out;
}

Result<void> show_status(const Where& where, bool& ready) {
  std::string url = where.url;
  if (url.empty()) {
    TRITIUM_TRY_ASSIGN(const RunningServer server, running(where));
    url = server.url;
  }
  while (url.ends_with('/')) url.pop_back();
  TRITIUM_TRY_ASSIGN(const json status, ask(url + "/status", where.key));
  ready = status.value("ready", false);
  std::printf("%s", where.json ? (status.dump(2) + "\n").c_str() : text_of(status, url).c_str());
  return {};
}

Result<void> stop(const Where& where) {
  TRITIUM_TRY_ASSIGN(const RunningServer server, running(where));
  const std::filesystem::path data = where.data.empty() ? state_folder() : std::filesystem::path(where.data);
  if (::kill(server.pid, SIGTERM) != 0)
    return Error{ErrorCode::failure, fmt::format("process {} cannot be told to end: {}", server.pid, system_message(errno)), "",
                 "stop it as the user it runs as"};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(where.seconds);
  while (is_alive(data, server)) {
    if (std::chrono::steady_clock::now() > end)
      return Error{ErrorCode::busy, fmt::format("process {} still finishes its jobs after {:g} s", server.pid, where.seconds), "",
                   "it ends by itself; a second 'tritium stop' ends it at once"};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

void add_data(CLI::App& app, Where& where) {
  app.add_option("--data", where.data, "Folder of the service's jobs; below ~/.local/state when absent")
      ->check(not_empty())
      ->envname("TRITIUM_DATA");
}

}  // namespace

Runner add_status(CLI::App& app) {
  auto where = std::make_shared<Where>();
  add_data(app, *where);
  app.add_option("--url", where->url, "Address of the service; that of the one with the folder when absent")->check(not_empty());
  app.add_option("--key", where->key, "API key")->envname("TRITIUM_KEY");
  app.add_flag("--json", where->json, "Print the status as JSON");
  return [where] {
    bool ready = false;
    const auto shown = show_status(*where, ready);
    if (!shown.ok()) return fail(shown.error());
    return ready ? 0 : static_cast<int>(ErrorCode::busy);
  };
}

Runner add_stop(CLI::App& app) {
  auto where = std::make_shared<Where>();
  add_data(app, *where);
  app.add_option("--wait", where->seconds, "Seconds to wait for its end")->check(between(0, 1e6))->capture_default_str();
  return [where] {
    const auto stopped = stop(*where);
    return stopped.ok() ? 0 : fail(stopped.error());
  };
}

}  // namespace tritium::cli
