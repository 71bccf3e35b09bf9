#include "cli/progress_bar.h"

#include "base/system.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tritium::cli {
namespace {

constexpr double kSecondsBetweenUpdates = 0.1;
constexpr int kBarWidth = 24;

std::string eta_text(double seconds) {
  if (seconds < 0) return "";
  const int whole = static_cast<int>(seconds + 0.5);
  return whole >= 60 ? fmt::format(", {}:{:02} left", whole / 60, whole % 60) : fmt::format(", {} s left", whole);
}

std::string step_text(const Progress& p) { return p.of > 0 ? fmt::format(" {}/{}", p.step, p.of) : ""; }

}  // namespace

ProgressStyle progress_style(const std::string& name) {
  if (name == "none") return ProgressStyle::none;
  if (name == "json") return ProgressStyle::json;
  if (name == "lines" || (name == "auto" && isatty(STDERR_FILENO) == 0)) return ProgressStyle::lines;
  return ProgressStyle::bar;
}

void ProgressPrinter::operator()(const Progress& p) {
  if (style_ == ProgressStyle::none) return;
  const bool new_stage = p.stage != stage_;
  const double now = monotonic_seconds();
  if (!new_stage && now - last_ < kSecondsBetweenUpdates) return;
  stage_ = p.stage;
  last_ = now;
  switch (style_) {
    case ProgressStyle::json: {
      const nlohmann::ordered_json event{
          {"stage", p.stage},
          {"step", p.step},
          {"of", p.of},
          {"fraction", p.fraction},
          {"eta_seconds", p.eta_seconds < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(p.eta_seconds)}};
      std::fprintf(stderr, "%s\n", event.dump().c_str());
      break;
    }
    case ProgressStyle::lines:
      if (new_stage) line(p);
      break;
    default:
      bar(p);
  }
}

void ProgressPrinter::line(const Progress& p) {
  std::fprintf(stderr, "%s\n", fmt::format("[{:3.0f}%] {}{}", 100 * p.fraction, p.stage, eta_text(p.eta_seconds)).c_str());
}

void ProgressPrinter::bar(const Progress& p) {
  const int filled = static_cast<int>(p.fraction * kBarWidth);
  const std::string text = fmt::format("[{}{}] {:3.0f}% {}{}{}", std::string(static_cast<std::size_t>(filled), '#'),
                                       std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), 100 * p.fraction, p.stage,
                                       step_text(p), eta_text(p.eta_seconds));
  std::fprintf(stderr, "\r%s\033[K", text.c_str());
  std::fflush(stderr);
  open_ = true;
}

void ProgressPrinter::finish() {
  if (open_) std::fprintf(stderr, "\r\033[K");
  open_ = false;
}

}  // namespace tritium::cli
