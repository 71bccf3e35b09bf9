#include "pipeline/placement.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tritium {
namespace {

constexpr std::array<const char*, 3> kStages = {"text", "dit", "vae"};
constexpr const char* kExample = "for example CPU, or text=CPU,dit=GPU0*60+GPU1*40,vae=GPU0; 'tritium devices' lists the names";

Error wrong(std::string message) { return Error{ErrorCode::usage, std::move(message), "device", kExample}; }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == separator)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

Result<DeviceChoice> parse_choice(const std::string& text) {
  const std::size_t star = text.rfind('*');
  DeviceChoice out{text.substr(0, star), 0};
  if (star != std::string::npos) {
    const std::string share = text.substr(star + 1);
    const auto [end, code] = std::from_chars(share.data(), share.data() + share.size(), out.share);
    if (code != std::errc() || end != share.data() + share.size() || !std::isfinite(out.share) || out.share <= 0)
      return wrong(fmt::format("'{}' in '{}' is not a share of the blocks: a number above 0", share, text));
  }
  if (out.name.empty()) return wrong(fmt::format("'{}' names no device", text));
  return out;
}

Result<std::vector<DeviceChoice>> parse_choices(const std::string& text) {
  std::vector<DeviceChoice> out;
  for (const std::string& each : split(text, '+')) {
    TRITIUM_TRY_ASSIGN(DeviceChoice choice, parse_choice(each));
    out.push_back(std::move(choice));
  }
  const auto shared = std::count_if(out.begin(), out.end(), [](const DeviceChoice& c) { return c.share > 0; });
  if (shared != 0 && shared != static_cast<std::ptrdiff_t>(out.size()))
    return wrong(fmt::format("'{}' gives a share to some of its devices only", text));
  return out;
}

}  // namespace

std::vector<std::string> Placement::devices() const {
  std::vector<std::string> out;
  const auto add = [&out](const std::vector<DeviceChoice>& choices) {
    for (const DeviceChoice& choice : choices)
      if (std::find(out.begin(), out.end(), choice.name) == out.end()) out.push_back(choice.name);
  };
  add(any);
  for (const auto& [stage, choices] : stages) add(choices);
  return out;
}

const std::vector<DeviceChoice>* Placement::of_stage(const std::string& stage) const {
  const auto found = stages.find(stage == "text" ? "text" : stage == "denoise" ? "dit" : "vae");
  return found == stages.end() ? nullptr : &found->second;
}

Result<Placement> parse_placement(const std::string& text) {
  Placement out;
  if (text.empty()) return out;
  for (const std::string& item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string stage = equals == std::string::npos ? "" : item.substr(0, equals);
    TRITIUM_TRY_ASSIGN(std::vector<DeviceChoice> choices, parse_choices(equals == std::string::npos ? item : item.substr(equals + 1)));
    if (equals == std::string::npos) {
      if (!out.any.empty()) return wrong(fmt::format("'{}' gives devices for all stages twice; join them with '+'", text));
      if (choices.size() > 1 && choices.front().share > 0) out.stages.emplace("dit", choices);
      out.any = std::move(choices);
      continue;
    }
    if (std::find(kStages.begin(), kStages.end(), stage) == kStages.end())
      return wrong(fmt::format("'{}' is not a stage: text, dit or vae", stage));
    if (stage != "dit" && choices.size() > 1) return wrong(fmt::format("'{}' runs on one device; only dit can be split", stage));
    if (!out.stages.emplace(stage, std::move(choices)).second) return wrong(fmt::format("'{}' is given twice", stage));
  }
  return out;
}

}  // namespace tritium
