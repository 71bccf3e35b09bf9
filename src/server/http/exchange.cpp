#include "server/http/exchange.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <ctime>

namespace tritium::http {
namespace {

Refusal refusal(int status, ErrorCode code, std::string message, std::string hint = "") {
  return {status, {code, std::move(message), "", std::move(hint)}};
}

bool is_safe(const std::string& method) { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }

std::size_t count_of(const HttpRequest& request, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(request.headers.begin(), request.headers.end(), [&](const auto& field) { return field.first == name; }));
}

// What Beast leaves to its user.
std::optional<Refusal> check_protocol(const Exchange& exchange) {
  const HttpRequest& request = exchange.request;
  const std::size_t hosts = count_of(request, "host");
  if (hosts > 1 || (hosts == 0 && exchange.parser.version() >= 11))
    return refusal(400, ErrorCode::usage, hosts > 1 ? "the request has more than one Host" : "the request has no header field Host");
  if (count_of(request, "transfer-encoding") > 1 ||
      (!request.header("transfer-encoding").empty() && !same_text(request.header("transfer-encoding"), "chunked")))
    return refusal(501, ErrorCode::usage, "the only transfer encoding known here is chunked");
  if (!request.header("content-encoding").empty() && !same_text(request.header("content-encoding"), "identity"))
    return refusal(415, ErrorCode::usage, "bodies with a Content-Encoding are not understood", "send the body as it is");
  if (!request.header("expect").empty() && !same_text(request.header("expect"), "100-continue"))
    return refusal(417, ErrorCode::usage, "the only expectation known here is 100-continue");
  return std::nullopt;
}

std::optional<Refusal> check_access(const ServerState& state, const HttpRequest& request) {
  const std::string_view host = request.header("host"), origin = request.header("origin");
  if (!host.empty() && !state.policy.host_allowed(host))
    return refusal(403, ErrorCode::usage, fmt::format("this server is not meant to be reached as '{}'", host),
                   "use localhost or 127.0.0.1, or allow the name with --allow-host");
  const bool upgrades = !request.header("upgrade").empty();
  if ((!is_safe(request.method) || upgrades) && !state.policy.origin_allowed(origin, host))
    return refusal(403, ErrorCode::usage, fmt::format("pages of '{}' may not use this server", origin), "allow them with --allow-origin");
  return std::nullopt;
}

bool is_public(const ServerState& state, const std::string& path) {
  return std::any_of(state.options.public_paths.begin(), state.options.public_paths.end(), [&](const std::string& entry) {
    return entry.ends_with('*') ? path.starts_with(std::string_view(entry).substr(0, entry.size() - 1)) : path == entry;
  });
}

// "Authorization: Bearer KEY". Browsers cannot send it with pictures, event streams and WebSockets of a page: those of our own pages may
// carry the key in the cookie "tritium_key", which other sites' pages cannot use.
std::string_view key_of(const HttpRequest& request, bool same_site) {
  const std::string_view header = request.header("authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (header.size() > kScheme.size() && same_text(header.substr(0, kScheme.size()), kScheme)) return trimmed(header.substr(kScheme.size()));
  if (!header.empty() || !same_site) return {};
  std::string_view cookies = request.header("cookie");
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    const std::string_view cookie = trimmed(cookies.substr(0, end));
    constexpr std::string_view kName = "tritium_key=";
    if (cookie.starts_with(kName)) return cookie.substr(kName.size());
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
  }
  return {};
}

std::optional<HttpResponse> check_key(ServerState& state, HttpRequest& request) {
  if (!state.options.keys || is_public(state, request.path)) return std::nullopt;
  const std::string_view site = request.header("sec-fetch-site");
  const bool same_site = (site.empty() || site == "same-origin" || site == "none") &&
                         state.policy.origin_allowed(request.header("origin"), request.header("host"));
  const ApiKey* key = state.options.keys->find(key_of(request, same_site));
  if (key == nullptr)
    return refuse(state, request,
                  refusal(401, ErrorCode::usage, "this needs a valid API key", "send the header field 'Authorization: Bearer KEY'"),
                  {{"www-authenticate", "Bearer"}});
  request.owner = key->name;
  const double wait = state.options.keys->take(*key, monotonic_seconds());
  if (wait <= 0) return std::nullopt;
  return refuse(state, request,
                refusal(429, ErrorCode::busy, fmt::format("more than {} requests in a minute", key->requests_per_minute.value_or(0)),
                        fmt::format("wait {:.0f} s", std::ceil(wait))),
                {{"retry-after", fmt::format("{:.0f}", std::ceil(wait))}});
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// What may be done with a path; for pages of other sites, if they may do anything, in their terms.
HttpResponse answer_options(const ServerState& state, const HttpRequest& request, std::vector<std::string> allowed) {
  allowed.emplace_back("OPTIONS");
  HttpResponse out = HttpResponse::empty(204);
  out.headers.emplace_back("allow", joined(allowed));
  if (!request.header("access-control-request-method").empty() && state.policy.listed(request.header("origin"))) {
    out.headers.emplace_back("access-control-allow-methods", joined(allowed));
    const std::string_view asked = request.header("access-control-request-headers");
    if (!asked.empty()) out.headers.emplace_back("access-control-allow-headers", asked);
    out.headers.emplace_back("access-control-max-age", "600");
  }
  return out;
}

std::optional<HttpResponse> find_handler(ServerState& state, Exchange& exchange) {
  HttpRequest& request = exchange.request;
  Router::Match match = state.router.find(request.method, request.path);
  if (match.handler != nullptr) {
    exchange.handler = match.handler;
    request.params = std::move(match.params);
    return std::nullopt;
  }
  if (!match.known_path)
    return refuse(state, request, refusal(404, ErrorCode::not_found, fmt::format("there is nothing at '{}'", request.path)));
  return refuse(state, request,
                refusal(405, ErrorCode::usage,
                        fmt::format("'{}' does not know {}; allowed: {}", request.path, request.method, joined(match.allowed))),
                {{"allow", joined(match.allowed)}});
}

}  // namespace

HttpResponse refuse(const ServerState& state, const HttpRequest& request, const Refusal& refused, const Fields& fields) {
  HttpResponse out;
  try {
    out = state.router.error(request, refused.status, refused.error);
  } catch (...) { out = HttpResponse::text(refused.status, refused.error.text()); }
  out.headers.insert(out.headers.end(), fields.begin(), fields.end());
  const auto has_wait =
      std::any_of(out.headers.begin(), out.headers.end(), [](const auto& field) { return same_text(field.first, "retry-after"); });
  if ((refused.status == 503 || refused.status == 429) && !has_wait) out.headers.emplace_back("retry-after", "5");
  return out;
}

std::optional<HttpResponse> check_header(ServerState& state, Exchange& exchange) {
  HttpRequest& request = exchange.request;
  request.method = exchange.parser.method();
  request.headers = exchange.parser.fields();
  if (valid_request_id(request.header("x-request-id"))) request.id = request.header("x-request-id");
  exchange.keep_alive = exchange.parser.keep_alive();
  const std::string& text = exchange.parser.target();
  const bool whole_server = text == "*" && request.method == "OPTIONS";
  auto target = parse_target(whole_server ? "/" : std::string_view(text), state.options.limits.form_fields);
  if (target.ok()) {
    request.path = std::move(target->path);
    request.query = std::move(target->query);
  }
  const auto malformed = check_protocol(exchange);
  if (malformed || !target.ok()) {
    exchange.keep_alive = false;  // whoever sends that may mean something else with what follows, too
    return refuse(state, request, malformed ? *malformed : Refusal{400, target.error()});
  }
  if (auto refused = check_access(state, request)) return refuse(state, request, *refused);
  if (request.method == "OPTIONS") {
    const Router::Match match = state.router.find("OPTIONS", request.path);
    if (match.handler == nullptr && (match.known_path || whole_server)) return answer_options(state, request, match.allowed);
  }
  if (auto response = check_key(state, request)) return response;
  if (auto response = find_handler(state, exchange)) return response;
  const std::uint64_t limit = state.options.limits.body_bytes;
  if (exchange.parser.content_length().value_or(0) > limit) return refuse(state, request, too_large("the body of the request", limit));
  if (!exchange.parser.has_body() && request.header("content-type").empty()) return std::nullopt;  // an empty form is one, too
  OpenedBody body = open_body(request, *exchange.holdings, state.options);
  if (body.refusal) return refuse(state, request, *body.refusal);
  exchange.body = std::move(body.reader);
  exchange.expects_continue = !request.header("expect").empty() && exchange.parser.version() >= 11;
  return std::nullopt;
}

HttpResponse call_handler(ServerState& state, Exchange& exchange) {
  HttpResponse out;
  std::string problem;
  try {
    out = (*exchange.handler)(exchange.request);
  } catch (const std::exception& exception) { problem = exception.what(); } catch (...) {
    problem = "an exception of an unknown kind";
  }
  if (!problem.empty())
    out = refuse(state, exchange.request,
                 refusal(500, ErrorCode::failure, fmt::format("an error inside the server: {}", problem),
                         fmt::format("report it with the request id {}", exchange.request.id)));
  release_request(exchange);
  return out;
}

void release_request(Exchange& exchange) {
  exchange.body.reset();
  exchange.request.body = std::string();
  exchange.request.form = {};
  exchange.holdings.reset();
}

Fields answer_fields(const ServerState& state, const Exchange& exchange, const HttpResponse& response) {
  Fields out = {{"date", http_date(std::time(nullptr))}, {"x-request-id", exchange.request.id}, {"x-content-type-options", "nosniff"}};
  if (!response.content_type.empty()) out.emplace_back("content-type", response.content_type);
  const std::string_view origin = exchange.request.header("origin");
  if (!state.options.origins.empty()) out.emplace_back("vary", "Origin");
  if (!origin.empty() && state.policy.listed(origin)) {
    out.emplace_back("access-control-allow-origin", origin);
    out.emplace_back("access-control-expose-headers", "x-request-id, content-range, accept-ranges, etag, retry-after");
  }
  for (const auto& [name, value] : response.headers) out.emplace_back(lower_case(name), value);
  return out;
}

bool is_web_socket_request(const Exchange& exchange) {
  const HttpRequest& request = exchange.request;
  return request.method == "GET" && exchange.parser.version() >= 11 && list_holds(request.header("upgrade"), "websocket") &&
         list_holds(request.header("connection"), "upgrade") && request.header("sec-websocket-version") == "13" &&
         !request.header("sec-websocket-key").empty();
}

}  // namespace tritium::http
