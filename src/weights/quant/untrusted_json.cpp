#include "weights/quant/untrusted_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace tritium {
namespace {

constexpr int kMaxDepth = 16;

// Watches the parser: once something is refused, nothing more is kept.
class Watcher {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (!problem_.empty()) return false;
    if (depth > kMaxDepth) problem_ = fmt::format("it is nested deeper than {}", kMaxDepth);
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(value.get<std::string>()).second)
      problem_ = fmt::format("the key '{}' appears twice", value.get<std::string>());
    return problem_.empty();
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string problem_;
};

}  // namespace

Result<nlohmann::json> parse_untrusted_json(std::string_view text, std::size_t limit) {
  const auto refuse = [](std::string what) { return Error{ErrorCode::model, std::move(what), "", ""}; };
  if (text.size() > limit) return refuse(fmt::format("it has {} bytes, the limit is {}", text.size(), limit));
  if (text.find('\0') != std::string_view::npos) return refuse("it is not valid JSON");  // the parser would take it for the end
  Watcher watcher;
  const auto watch = [&watcher](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    return watcher(depth, event, value);
  };
  nlohmann::json parsed = nlohmann::json::parse(text.begin(), text.end(), watch, false);
  if (!watcher.problem().empty()) return refuse(watcher.problem());
  if (parsed.is_discarded()) return refuse("it is not valid JSON");
  return parsed;
}

}  // namespace tritium
