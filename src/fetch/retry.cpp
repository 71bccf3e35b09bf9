#include "fetch/retry.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace tritium::fetch {
namespace {

constexpr double kLongestPause = 60, kLongestAsked = 900;

const char* status_words(int status) {
  switch (status) {
    case 400:
      return " Bad Request";
    case 401:
      return " Unauthorized";
    case 403:
      return " Forbidden";
    case 404:
      return " Not Found";
    case 408:
      return " Request Timeout";
    case 410:
      return " Gone";
    case 416:
      return " Range Not Satisfiable";
    case 429:
      return " Too Many Requests";
    case 500:
      return " Internal Server Error";
    case 502:
      return " Bad Gateway";
    case 503:
      return " Service Unavailable";
    case 504:
      return " Gateway Timeout";
    default:
      return "";
  }
}

Verdict judge_status(const HttpOutcome& outcome, std::uint64_t size) {
  const int status = outcome.head.status;
  Verdict out;
  out.reason = fmt::format("the server answered {}{}", status, status_words(status));
  if (status == 200 || status == 206) {
    out.reason = "the answer ended too early";
  } else if (status == 404 || status == 410) {
    out.kind = Verdict::Kind::absent;
    out.hint = "is the name right? a revision or a private repository may need a token, too";
  } else if (status == 401 || status == 403) {
    out.kind = Verdict::Kind::failed;
    out.hint = outcome.token_sent ? "the token was sent; has its owner been given access to this file?"
                                  : "it wants a token: --token-file FILE, TRITIUM_TOKEN or HF_TOKEN, see docs/fetch.md";
  } else if (status == 416 && outcome.head.total && *outcome.head.total != size) {
    out.kind = Verdict::Kind::other_size;
    out.total = outcome.head.total;
  } else if (status == 408 || status == 425 || status == 429 || status >= 500 || status == 0) {
    out.wait = outcome.retry_after;
    if (out.wait > kLongestAsked) {
      out.kind = Verdict::Kind::failed;
      out.hint = fmt::format("it asks to wait for {:.0f} s: run the same command later", out.wait);
    }
  } else {
    out.kind = Verdict::Kind::failed;
  }
  return out;
}

}  // namespace

Verdict judge(const HttpOutcome& outcome, std::uint64_t size) {
  switch (outcome.ending) {
    case Ending::refused:
      return {Verdict::Kind::failed, outcome.message, "", 0, {}};
    case Ending::broken:
    case Ending::stalled:
      return {Verdict::Kind::retry, outcome.message, "", 0, {}};
    default:
      return judge_status(outcome, size);
  }
}

double pause_before(int failures, double first_pause, double asked) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const double full = std::min(kLongestPause, first_pause * std::pow(2.0, std::min(failures - 1, 20)));
  return std::max(asked, full * std::uniform_real_distribution<double>(0.5, 1.0)(random));
}

bool wait_for(double seconds, const std::function<bool()>& keep_going) {
  constexpr double kSlice = 0.05;
  const double end = monotonic_seconds() + seconds;
  for (double left = seconds; left > 0; left = end - monotonic_seconds()) {
    if (!keep_going()) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kSlice)));
  }
  return keep_going();
}

Error address_error(const TransferTarget& target, const std::string& reason, const std::string& hint) {
  return Error{ErrorCode::failure, fmt::format("cannot fetch '{}' from {}: {}", target.name, shown(target.url), reason), "", hint};
}

}  // namespace tritium::fetch
