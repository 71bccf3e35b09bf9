// The match report for people.
#include "weights/lora/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tritium {
namespace {

constexpr std::size_t kShownKeys = 6;

const char* alpha_source(LoraAlpha from) {
  switch (from) {
    case LoraAlpha::given:
      return "alpha as given";
    case LoraAlpha::tensor:
      return "alpha from the file's tensors";
    case LoraAlpha::metadata:
      return "alpha from the file's metadata";
    case LoraAlpha::table:
      return "alpha from the table of published LoRAs";
    case LoraAlpha::none:
      return "the file has no alpha";
  }
  return "?";
}

const char* reason(LoraSkip::Why why) {
  switch (why) {
    case LoraSkip::Why::unknown:
      return "unknown keys";
    case LoraSkip::Why::wrong_shape:
      return "wrong shapes";
    case LoraSkip::Why::incomplete:
      return "pairs with one factor";
    case LoraSkip::Why::wrong_type:
      return "unreadable types";
    case LoraSkip::Why::not_finite:
      return "values that are not finite";
    case LoraSkip::Why::modulation:
      return "adaLN pairs of the other kind of model (full or pruned)";
  }
  return "?";
}

std::string skip_line(const LoraReport& report, const std::string& name, LoraSkip::Why why) {
  std::size_t count = 0;
  std::vector<std::string> keys;
  const LoraSkip* first = nullptr;
  for (const LoraSkip& skip : report.skipped) {
    if (skip.why != why) continue;
    if (first == nullptr) first = &skip;
    if (++count <= kShownKeys || why == LoraSkip::Why::modulation) keys.push_back(skip.key);
  }
  if (count == 0) return {};
  const std::size_t hidden = count - keys.size();
  return fmt::format("LoRA {}: skipped {} for {}: {}{}; {}{}", name, count, reason(why), fmt::join(keys, ", "),
                     hidden > 0 ? fmt::format(" and {} more", hidden) : std::string(), count > 1 ? "the first: " : "", first->detail);
}

}  // namespace

std::string lora_scale_text(const LoraReport& report, double strength) {
  std::vector<std::string> parts;
  for (const LoraScale& s : report.scales) {
    std::string text = fmt::format("{:g} (strength {:g}", strength * s.value, strength);
    if (s.from != LoraAlpha::none) text += fmt::format(" x alpha {:g} / rank {}", s.alpha, s.rank);
    text += fmt::format(", {}", alpha_source(s.from));
    if (report.scales.size() > 1) text += fmt::format(", {} pairs", s.pairs);
    parts.push_back(text + ")");
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> lora_report_lines(const LoraReport& report, const std::string& name, double strength) {
  std::vector<std::string> dialects;
  for (const auto& [dialect, pairs] : report.dialects)
    dialects.push_back(report.dialects.size() > 1 ? fmt::format("{} ({})", dialect_name(dialect), pairs) : dialect_name(dialect));
  std::vector<std::string> out{fmt::format("LoRA {}: {} of {} pairs on {} layers, names: {}; scale {}", name, report.matched, report.pairs,
                                           report.layers, fmt::join(dialects, ", "), lora_scale_text(report, strength))};
  if (report.projected > 0) out.push_back(fmt::format("LoRA {}: {} adaLN pairs projected onto the pruned model", name, report.projected));
  for (const std::string& note : report.notes) out.push_back(fmt::format("LoRA {}: {}", name, note));
  using Why = LoraSkip::Why;
  for (const Why why : {Why::unknown, Why::wrong_shape, Why::incomplete, Why::wrong_type, Why::not_finite, Why::modulation})
    if (std::string line = skip_line(report, name, why); !line.empty()) out.push_back(std::move(line));
  return out;
}

}  // namespace tritium
