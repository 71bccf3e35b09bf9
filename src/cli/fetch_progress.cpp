#include "cli/fetch_progress.h"

#include "base/system.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr double kSecondsBetweenLines = 10;

double fraction_of(const fetch::FetchProgress& p) { return p.total == 0 ? 0 : static_cast<double>(p.done) / static_cast<double>(p.total); }

std::string time_left(double seconds) {
  if (seconds < 0 || seconds > 99 * 3600.0) return "";
  const int whole = static_cast<int>(seconds + 0.5);
  if (whole >= 3600) return fmt::format(", {}:{:02}:{:02} left", whole / 3600, whole / 60 % 60, whole % 60);
  return whole >= 60 ? fmt::format(", {}:{:02} left", whole / 60, whole % 60) : fmt::format(", {} s left", whole);
}

std::string facts(const fetch::FetchProgress& p) {
  std::string out = fmt::format("{} of {}", format_bytes(p.done), format_bytes(p.total));
  if (p.stage == "fetch")
    out += fmt::format(", {}/s{}", format_bytes(static_cast<std::uint64_t>(p.bytes_per_second)), time_left(p.eta_seconds));
  return out;
}

}  // namespace

void FetchPrinter::operator()(const fetch::FetchProgress& p) {
  switch (style_) {
    case ProgressStyle::none:
      return;
    case ProgressStyle::json: {
      const nlohmann::ordered_json event{
          {"stage", p.stage},
          {"file", p.file},
          {"index", p.index},
          {"of", p.of},
          {"done_bytes", p.done},
          {"total_bytes", p.total},
          {"fraction", fraction_of(p)},
          {"bytes_per_second", p.bytes_per_second},
          {"eta_seconds", p.eta_seconds < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(p.eta_seconds)}};
      std::fprintf(stderr, "%s\n", event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
      return;
    }
    case ProgressStyle::lines:
      return line(p);
    default:
      return bar(p);
  }
}

void FetchPrinter::line(const fetch::FetchProgress& p) {
  const double now = monotonic_seconds();
  if (p.file == file_ && p.stage == stage_ && now - last_line_ < kSecondsBetweenLines) return;
  file_ = p.file;
  stage_ = p.stage;
  last_line_ = now;
  std::fprintf(stderr, "%s\n",
               fmt::format("[{:3.0f}%] {} {}/{} {}: {}", 100 * fraction_of(p), p.stage, p.index, p.of, p.file, facts(p)).c_str());
}

void FetchPrinter::bar(const fetch::FetchProgress& p) {
  const auto filled = static_cast<std::size_t>(std::clamp(fraction_of(p), 0.0, 1.0) * kBarWidth);
  const std::string text = fmt::format("[{}{}] {:3.0f}% {} {}/{} {}: {}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                                       100 * fraction_of(p), p.stage, p.index, p.of, p.file.substr(p.file.rfind('/') + 1), facts(p));
  std::fprintf(stderr, "\r%s\033[K", text.c_str());
  std::fflush(stderr);
  open_ = true;
}

void FetchPrinter::notice(const std::string& text) {
  if (style_ == ProgressStyle::json) {
    const nlohmann::ordered_json event{{"notice", text}};
    std::fprintf(stderr, "%s\n", event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  finish();
  std::fprintf(stderr, "note: %s\n", text.c_str());
}

void FetchPrinter::finish() {
  if (open_) std::fprintf(stderr, "\r\033[K");
  open_ = false;
}

}  // namespace tritium::cli
