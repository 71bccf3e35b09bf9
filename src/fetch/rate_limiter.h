// Keeps several downloads together below a rate.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

namespace tritium::fetch {

class RateLimiter {
 public:
  // Bytes per second; 0: no limit.
  explicit RateLimiter(std::uint64_t rate) : rate_(static_cast<double>(rate)) {}

  // Accounts for bytes that have arrived and waits until they were due. False when `keep_going` said no meanwhile.
  bool take(std::uint64_t bytes, const std::function<bool()>& keep_going);

 private:
  double rate_;
  std::mutex mutex_;
  double due_ = 0;  // on the monotonic clock
};

// "500K", "10M", "1.5G": bytes, K being 1024. None: not such a number, or below 1.
std::optional<std::uint64_t> parse_rate(std::string_view text);

}  // namespace tritium::fetch
