#include "server/http/access.h"

#include "server/http/url.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium::http {
namespace {

bool is_own_name(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "[::1]") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;  // not "127.0.0.1.example"
}

bool all_of(std::string_view text, std::string_view allowed) { return text.find_first_not_of(allowed) == std::string_view::npos; }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '"' || c == '\\')
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::optional<HostAndPort> parse_host(std::string_view text) {
  HostAndPort out;
  const std::size_t close = text.starts_with('[') ? text.find(']') : 0;
  if (close == std::string_view::npos) return std::nullopt;
  const std::size_t colon = text.find(':', close);
  out.host = lower_case(text.substr(0, colon));
  if (colon != std::string_view::npos) out.port = text.substr(colon + 1);
  const bool is_v6 = text.starts_with('[');
  if (is_v6 ? (!out.host.ends_with(']') || !all_of(out.host, "[]0123456789abcdef:.%"))
            : !all_of(out.host, "abcdefghijklmnopqrstuvwxyz0123456789.-_"))
    return std::nullopt;
  if (out.host.empty() || out.port.size() > 5 || !all_of(out.port, "0123456789")) return std::nullopt;
  if (out.host.ends_with('.')) out.host.pop_back();  // the same name
  return out;
}

AccessPolicy::AccessPolicy(bool loopback, std::vector<std::string> hosts, std::vector<std::string> origins)
    : loopback_(loopback), hosts_(std::move(hosts)), origins_(std::move(origins)) {
  for (std::string& host : hosts_) host = lower_case(host);
  for (std::string& origin : origins_) {
    origin = lower_case(origin);
    if (origin.ends_with('/')) origin.pop_back();
  }
}

bool AccessPolicy::host_allowed(std::string_view host) const {
  const auto parsed = parse_host(host);
  if (!parsed) return false;
  if (loopback_ ? is_own_name(parsed->host) : hosts_.empty()) return true;
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == parsed->host || allowed == parsed->host + ":" + parsed->port;
  });
}

bool AccessPolicy::listed(std::string_view origin) const {
  const std::string wanted = lower_case(origin);
  return std::any_of(origins_.begin(), origins_.end(), [&](const std::string& allowed) { return allowed == "*" || allowed == wanted; });
}

bool AccessPolicy::origin_allowed(std::string_view origin, std::string_view host) const {
  if (origin.empty() || listed(origin)) return true;
  const std::size_t slashes = origin.find("://");
  if (slashes == std::string_view::npos) return false;  // "null" among others
  const std::string_view default_port = same_text(origin.substr(0, slashes), "https") ? "443" : "80";
  const auto from = parse_host(origin.substr(slashes + 3)), here = parse_host(host);
  if (!from || !here || from->host != here->host) return false;
  return (from->port.empty() ? default_port : from->port) == (here->port.empty() ? default_port : here->port);
}

std::string access_text(const AccessRecord& record) {
  return fmt::format("{} {} {} {} {} {} {} bytes {:.1f} ms", record.id, escaped(record.remote),
                     record.owner.empty() ? "-" : escaped(record.owner), escaped(record.method), escaped(record.path), record.status,
                     record.bytes, record.seconds * 1e3);
}

std::string access_json(const AccessRecord& record) {
  const nlohmann::json out = {{"request_id", record.id}, {"key", record.owner},       {"remote", record.remote},
                              {"method", record.method}, {"path", record.path},       {"status", record.status},
                              {"bytes", record.bytes},   {"ms", record.seconds * 1e3}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tritium::http
