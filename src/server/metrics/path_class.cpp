#include "server/metrics/metrics.h"

#include <algorithm>

namespace tritium::server::metrics {
namespace {

std::vector<std::string> segments_of(const std::string& path) {
  std::vector<std::string> out;
  std::size_t begin = 1;
  while (begin < path.size() && out.size() < 5) {
    const std::size_t slash = std::min(path.find('/', begin), path.size());
    out.push_back(path.substr(begin, slash - begin));
    begin = slash + 1;
  }
  return out;
}

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string video_class(const std::vector<std::string>& s) {
  if (s.size() == 2) return "/v1/videos";
  if (is_one_of(s[2], {"sync", "plan", "edits", "extensions", "characters"})) return "/v1/videos/" + s[2];
  if (s.size() == 3) return "/v1/videos/{id}";
  return is_one_of(s[3], {"content", "inputs", "cancel", "retry", "remix", "events"}) ? "/v1/videos/{id}/" + s[3] : "other";
}

}  // namespace

std::string path_class(const std::string& path) {
  std::vector<std::string> s = segments_of(path);
  if (s.empty()) return "/";
  if (s[0] == "v1" && s.size() >= 2) {
    if (s[1] == "videos") return video_class(s);
    return is_one_of(s[1], {"models", "loras", "events", "video_generation", "query", "files"}) ? "/v1/" + s[1] : "other";
  }
  if (s[0] == "v2" && s.size() >= 2)
    return is_one_of(s[1], {"video_generation", "query", "video_regeneration", "h3_context_ir"}) ? "/v2/" + s[1] : "other";
  if (s[0] == "api" && s.size() >= 2) s.erase(s.begin());
  if (is_one_of(s[0], {"prompt",      "queue",    "history",    "interrupt", "free",    "view",        "upload",        "system_stats",
                       "object_info", "features", "embeddings", "models",    "jobs",    "ws",          "view_metadata", "ui",
                       "assets",      "health",   "ready",      "status",    "metrics", "openapi.json"}))
    return "/" + s[0];
  return "other";
}

void HttpCounts::count(const std::string& method, const std::string& path, int status, double seconds) {
  const std::string known_method = is_one_of(method, {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) ? method : "other";
  const std::string place = path_class(path);
  const auto bucket = static_cast<std::size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin());
  const std::scoped_lock lock(mutex_);
  ++requests_[{known_method, place, std::to_string(status)}];
  Times& times = times_[place];
  ++times.counts.at(bucket);
  times.sum += seconds;
}

std::map<std::array<std::string, 3>, std::uint64_t> HttpCounts::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

std::map<std::string, HttpCounts::Times> HttpCounts::times() const {
  const std::scoped_lock lock(mutex_);
  return times_;
}

}  // namespace tritium::server::metrics
