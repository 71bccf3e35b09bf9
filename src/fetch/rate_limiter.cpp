#include "fetch/rate_limiter.h"

#include "base/system.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

namespace tritium::fetch {

bool RateLimiter::take(std::uint64_t bytes, const std::function<bool()>& keep_going) {
  if (rate_ <= 0) return true;
  constexpr double kSlice = 0.05;  // a reply to Ctrl-C must not wait for more
  double due = 0;
  {
    const std::lock_guard lock(mutex_);
    due_ = std::max(due_, monotonic_seconds()) + static_cast<double>(bytes) / rate_;  // idle time is not saved up
    due = due_;
  }
  for (double left = due - monotonic_seconds(); left > 0; left = due - monotonic_seconds()) {
    if (!keep_going()) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
  }
  return true;
}

std::optional<std::uint64_t> parse_rate(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || value < 0) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 1;
  if (unit == "K" || unit == "k")
    factor = 1024.0;
  else if (unit == "M" || unit == "m")
    factor = 1024.0 * 1024;
  else if (unit == "G" || unit == "g")
    factor = 1024.0 * 1024 * 1024;
  else if (!unit.empty())
    return std::nullopt;
  const double bytes = value * factor;
  if (!(bytes >= 1 && bytes < 1e18)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace tritium::fetch
