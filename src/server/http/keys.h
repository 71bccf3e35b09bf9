// API keys: who may use the server, and how much.
#pragma once

#include <tritium/result.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::http {

struct ApiKey {
  std::string name;  // the owner of what is done with it
  std::optional<int> max_queued, requests_per_minute;
};

// All functions may be called from any thread.
class ApiKeys {
 public:
  // A text file, one key per line: `name key [max_queued=N] [requests_per_minute=N]`; "#" begins a comment. Errors: usage (naming file and
  // line, never a key): unreadable, readable by everybody, a name twice, a key twice or shorter than 16 characters, an unknown option.
  static Result<std::shared_ptr<ApiKeys>> load(const std::filesystem::path& file);
  static Result<std::shared_ptr<ApiKeys>> parse(std::string_view text, const std::string& shown_name);

  // Takes as long whether and whichever key it is. Null: none of them.
  [[nodiscard]] const ApiKey* find(std::string_view key) const;
  [[nodiscard]] const ApiKey* find_name(std::string_view name) const;
  // Counts a request. 0: it may be answered; otherwise the seconds to wait.
  double take(const ApiKey& key, double now);

 private:
  struct Entry {
    ApiKey key;
    std::string digest;  // SHA-256 of the key
  };
  struct Bucket {
    double tokens = 0, time = 0;
  };
  std::vector<Entry> entries_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace tritium::http
