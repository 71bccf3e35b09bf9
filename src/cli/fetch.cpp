#include "cli/common.h"
#include "cli/fetch_progress.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "fetch/fetch.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxTokenBytes = 64 << 10;

struct FetchCommand {
  std::string what, output, only, rate_limit, token_file, proxy, progress = "auto";
  std::vector<std::string> mirrors, token_hosts;
  int connections = 4, retries = 8;
  double timeout = 30;
  bool list = false, dry_run = false, json = false, wait = false;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<fetch::Token> read_token(const FetchCommand& o) {
  fetch::Token out{"", o.token_hosts};
  std::string source = "token-file";
  if (!o.token_file.empty()) {
    auto text = read_file(o.token_file, kMaxTokenBytes);
    if (!text.ok()) return Error{ErrorCode::usage, text.error().message, source, ""};
    out.value = std::move(*text);
  } else if (out.value = environment("TRITIUM_TOKEN"); !out.value.empty()) {
    source = "TRITIUM_TOKEN";
  } else if (out.value = environment("HF_TOKEN"); !out.value.empty()) {
    source = "HF_TOKEN";
    if (out.hosts.empty()) out.hosts = {"huggingface.co"};
  }
  while (!out.value.empty() && (out.value.back() == '\n' || out.value.back() == '\r' || out.value.back() == ' ')) out.value.pop_back();
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!std::all_of(out.value.begin(), out.value.end(), printable) || (out.value.empty() && !o.token_file.empty()))
    return Error{ErrorCode::usage, "not a token: expected is one word", source, ""};
  return out;
}

Result<fetch::Manifest> find_manifest(const std::string& what) {
  if (what.empty())
    return Error{ErrorCode::usage, "nothing to fetch was named", "manifest",
                 "'tritium fetch --list' shows the built-in sets; MANIFEST.json names your own"};
  if (const fetch::Manifest* builtin = fetch::builtin_manifest(what)) return *builtin;
  return fetch::read_manifest(what);
}

Result<fetch::FetchOptions> options_of(const FetchCommand& o, const fetch::Manifest& manifest) {
  fetch::FetchOptions out;
  out.folder = !o.output.empty() ? o.output : manifest.name;
  if (out.folder.empty() || (o.output.empty() && !fetch::path_problem(manifest.name).empty()))
    return Error{ErrorCode::usage, "the manifest has no name that could be a folder's", "output", "give the folder with -o DIR"};
  out.mirrors = o.mirrors;
  out.only = o.only;
  out.wait = o.wait;
  out.transfer.connections = o.connections;
  out.transfer.retries = o.retries;
  out.transfer.http.stall_seconds = o.timeout;
  out.transfer.http.proxy = o.proxy;
  if (!o.rate_limit.empty()) {
    const auto rate = fetch::parse_rate(o.rate_limit);
    if (!rate)
      return Error{ErrorCode::usage, fmt::format("'{}' is not a rate", o.rate_limit), "rate-limit",
                   "bytes per second, such as 500K, 10M or 1.5G"};
    out.rate_limit = *rate;
  }
  TRITIUM_TRY_ASSIGN(out.transfer.http.token, read_token(o));
  return out;
}

void print_list(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const fetch::Manifest& m : fetch::builtin_manifests()) {
    const bool exact = std::all_of(m.files.begin(), m.files.end(), [](const fetch::ManifestFile& f) { return f.bytes.has_value(); });
    if (json) {
      auto one = nlohmann::ordered_json::parse(fetch::manifest_json(m));
      one["known_bytes"] = m.known_bytes();
      all.push_back(std::move(one));
    } else {
      const std::string size = exact ? format_bytes(m.known_bytes()) : "as the server says";
      std::printf("%s\n", fmt::format("{:<26}{:>4} files  {:>18}  {}", m.name, m.files.size(), size, m.description).c_str());
    }
  }
  if (json) std::printf("%s\n", all.dump(2).c_str());
}

Result<void> print_plan(const fetch::Manifest& manifest, const fetch::FetchOptions& options, bool json) {
  TRITIUM_TRY_ASSIGN(const auto plan, fetch::plan_fetch(manifest, options));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::uint64_t missing = 0;
  for (const fetch::PlannedFile& p : plan) {
    const std::uint64_t size = p.file.bytes.value_or(0);
    if (!p.present) missing += size - std::min(size, p.kept);
    const std::string state = p.present ? "present" : p.kept > 0 ? fmt::format("{} kept", format_bytes(p.kept)) : "missing";
    nlohmann::ordered_json entry{{"path", p.file.path}};
    entry["bytes"] = p.file.bytes ? nlohmann::ordered_json(*p.file.bytes) : nlohmann::ordered_json();
    entry["present"] = p.present;
    entry["kept_bytes"] = p.kept;
    std::vector<std::string> urls;
    for (const std::string& url : p.urls) urls.push_back(fetch::shown(url));
    entry["urls"] = urls;
    all.push_back(std::move(entry));
    if (!json)
      std::printf("%s\n",
                  fmt::format("{:>12}  {:<16}  {}  {}", p.file.bytes ? format_bytes(size) : "?", state, p.file.path, urls.front()).c_str());
  }
  if (json) {
    std::printf("%s\n",
                nlohmann::ordered_json{{"folder", options.folder.string()}, {"missing_bytes", missing}, {"files", all}}.dump(2).c_str());
  } else {
    std::printf("%s\n", fmt::format("{} to fetch into '{}'", format_bytes(missing), options.folder.string()).c_str());
  }
  return {};
}

void print_report(const fetch::FetchReport& report, const fs::path& folder, bool json) {
  if (!json) {
    for (const fetch::FetchedFile& file : report.files)
      if (file.state != fetch::FileState::absent) std::printf("%s\n", (folder / file.path).c_str());
    return;
  }
  nlohmann::ordered_json out{{"folder", folder.string()}, {"received_bytes", report.received}, {"seconds", report.seconds}};
  out["files"] = nlohmann::ordered_json::array();
  for (const fetch::FetchedFile& file : report.files) {
    const char* state = file.state == fetch::FileState::present   ? "present"
                        : file.state == fetch::FileState::fetched ? "fetched"
                                                                  : "absent";
    out["files"].push_back({{"path", file.path}, {"state", state}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  std::printf("%s\n", out.dump(2).c_str());
}

Result<void> run(const FetchCommand& o) {
  if (o.list) {
    print_list(o.json);
    return {};
  }
  TRITIUM_TRY_ASSIGN(const fetch::Manifest manifest, find_manifest(o.what));
  TRITIUM_TRY_ASSIGN(const fetch::FetchOptions options, options_of(o, manifest));
  if (o.dry_run) return print_plan(manifest, options, o.json);
  FetchPrinter printer(progress_style(o.progress));
  const fetch::FetchHooks hooks{[&](const fetch::FetchProgress& p) { printer(p); }, [&](const std::string& text) { printer.notice(text); }};
  const auto report = fetch::fetch(manifest, options, hooks, &interrupt_token());
  printer.finish();
  if (!report.ok()) return report.error();
  print_report(*report, options.folder, o.json);
  return {};
}

}  // namespace

Runner add_fetch(CLI::App& app) {
  auto o = std::make_shared<FetchCommand>();
  app.add_option("manifest", o->what, "A built-in set (see --list) or a MANIFEST.json");
  app.add_flag("--list", o->list, "Show the built-in sets");
  app.add_option("-o,--output", o->output, "Folder to fetch into; one named like the set when absent")->check(not_empty());
  app.add_option("--mirror", o->mirrors, "Try this address pattern first: https://HOST/{repo}/resolve/{revision}/{path}; repeatable")
      ->allow_extra_args(false);
  app.add_option("--only", o->only, "Only files whose path or name matches this pattern, such as '*.json'");
  app.add_option("--connections", o->connections, "Requests at once")->check(between(1, 32));
  app.add_option("--rate-limit", o->rate_limit, "Bytes per second, such as 500K or 10M");
  app.add_option("--retries", o->retries, "Tries in a row without progress before an address is given up")->check(between(0, 1000));
  app.add_option("--timeout", o->timeout, "Seconds without data after which a connection is opened anew")->check(between(1.0, 3600.0));
  app.add_option("--token-file", o->token_file, "File with an access token (or TRITIUM_TOKEN, HF_TOKEN in the environment)");
  app.add_option("--token-host", o->token_hosts, "Host that may see the token, in place of those the manifest names; repeatable")
      ->allow_extra_args(false);
  app.add_option("--proxy", o->proxy, "Proxy address; as the environment says (https_proxy, ...) when absent");
  app.add_flag("--wait", o->wait, "Wait for another fetch into the same folder instead of refusing");
  app.add_flag("--dry-run", o->dry_run, "Show what would be fetched, without the network");
  app.add_option("--progress", o->progress, "auto, bar, lines, json or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "json", "none"}));
  app.add_flag("--json", o->json, "Print the result as JSON");
  return [o] {
    const auto done = run(*o);
    return done.ok() ? 0 : fail(done.error());
  };
}

}  // namespace tritium::cli
