#include "server/http/router.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium::http {
namespace {

// "/a/b" → {"a", "b"}; "/a/" → {"a", ""}; "/" → {""}
std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> out;
  std::size_t begin = path.starts_with('/') ? 1 : 0;
  while (true) {
    const std::size_t slash = path.find('/', begin);
    out.push_back(path.substr(begin, slash == std::string::npos ? slash : slash - begin));
    if (slash == std::string::npos) return out;
    begin = slash + 1;
  }
}

enum class Kind { fixed, one, rest };  // the better match first
Kind kind_of(const std::string& segment) {
  if (!segment.starts_with('{') || !segment.ends_with('}')) return Kind::fixed;
  return segment.ends_with("*}") ? Kind::rest : Kind::one;
}
std::string name_of(const std::string& segment) { return segment.substr(1, segment.size() - (kind_of(segment) == Kind::rest ? 3 : 2)); }

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const Kind kind = kind_of(pattern[i]);
    if (kind == Kind::rest) return i < path.size();
    if (i >= path.size() || (kind == Kind::fixed && pattern[i] != path[i]) || (kind == Kind::one && path[i].empty())) return false;
  }
  return pattern.size() == path.size();
}

// Whether `a` is to be preferred to `b`: the first segment of another kind decides.
bool better(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (kind_of(a[i]) != kind_of(b[i])) return kind_of(a[i]) < kind_of(b[i]);
  return a.size() > b.size();
}

std::map<std::string, std::string> params_of(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const Kind kind = kind_of(pattern[i]);
    if (kind == Kind::fixed) continue;
    std::string value = path[i];
    for (std::size_t k = i + 1; kind == Kind::rest && k < path.size(); ++k) value += "/" + path[k];
    out[name_of(pattern[i])] = std::move(value);
  }
  return out;
}

bool is_below(const std::string& path, const std::string& prefix) {
  if (!path.starts_with(prefix)) return false;
  return prefix.empty() || prefix.ends_with('/') || path.size() == prefix.size() || path[prefix.size()] == '/';
}

HttpResponse plain_error(int status, const Error& error) {
  nlohmann::json inner = {{"message", error.text()}, {"code", status}};
  if (!error.field.empty()) inner["param"] = error.field;
  const nlohmann::json document = {{"error", inner}};
  return HttpResponse::json(status, document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void Router::add(const std::string& method, const std::string& pattern, Handler handler) {
  routes_.push_back({method, split(pattern), std::move(handler)});
}

void Router::errors_below(const std::string& prefix, ErrorWriter writer) { errors_.emplace_back(prefix, std::move(writer)); }

Router::Match Router::find(const std::string& method, const std::string& path) const {
  const std::vector<std::string> segments = split(path);
  const Route* best = nullptr;
  Match out;
  for (const Route& route : routes_) {
    if (!matches(route.segments, segments)) continue;
    out.known_path = true;
    out.allowed.push_back(route.method);
    if (route.method == "GET") out.allowed.emplace_back("HEAD");
    const bool fits = route.method == method || (method == "HEAD" && route.method == "GET");
    if (!fits) continue;
    const bool own_head = best != nullptr && method == "HEAD" && route.method == "HEAD" && best->method == "GET";
    if (best == nullptr || better(route.segments, best->segments) || (own_head && !better(best->segments, route.segments))) best = &route;
  }
  std::sort(out.allowed.begin(), out.allowed.end());
  out.allowed.erase(std::unique(out.allowed.begin(), out.allowed.end()), out.allowed.end());
  if (best == nullptr) return out;
  out.handler = &best->handler;
  out.params = params_of(best->segments, segments);
  return out;
}

std::vector<std::pair<std::string, std::string>> Router::routes() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Route& route : routes_) {
    std::string pattern;
    for (const std::string& segment : route.segments) pattern += "/" + segment;
    out.emplace_back(route.method, std::move(pattern));
  }
  return out;
}

HttpResponse Router::error(const HttpRequest& request, int status, const Error& error) const {
  const std::pair<std::string, ErrorWriter>* best = nullptr;
  for (const auto& entry : errors_)
    if (is_below(request.path, entry.first) && (best == nullptr || entry.first.size() > best->first.size())) best = &entry;
  return best == nullptr ? plain_error(status, error) : best->second(request, status, error);
}

}  // namespace tritium::http
