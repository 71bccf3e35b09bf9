#include "cli/lora_options.h"

#include "base/try.h"
#include "cli/common.h"

#include <fmt/format.h>
#include <charconv>
#include <cmath>
#include <map>

namespace tritium::cli {
namespace {

Error usage(std::string field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

void add_lora_options(CLI::App& app, LoraOptions& o) {
  o.app = &app;
  const char* group = "LoRA";
  app.add_option("--lora", o.loras, "A LoRA, FILE[:STRENGTH]; a file, or a name in a folder 'loras' beside the model; repeatable")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--lora-alpha", o.alphas, "Alpha of the --lora before it, in place of what its file says: strength x alpha / rank")
      ->take_all()
      ->expected(1)
      ->group(group);
  app.add_option("--lora-basis", o.basis, "The full model that a pruned one was made from: brings adaLN pairs of LoRAs onto the pruned one")
      ->check(not_empty())
      ->group(group);
  app.add_flag("--force", o.force, "Do what contradicts a LoRA's training")->group(group);
}

Result<LoraInput> parse_lora(const std::string& text) {
  LoraInput out;
  out.file = text;
  if (const std::size_t colon = text.rfind(':'); colon != std::string::npos)
    if (const auto strength = number(std::string_view(text).substr(colon + 1))) {
      out.file = text.substr(0, colon);
      out.strength = *strength;
    }
  if (out.file.empty()) return usage("lora", fmt::format("'{}' names no file", text), "write FILE or FILE:STRENGTH");
  if (!std::isfinite(out.strength)) return usage("lora", fmt::format("'{}': the strength is not finite", text), "write FILE:0.8");
  return out;
}

Result<void> read_lora_options(const LoraOptions& o, Request& request) {
  request.lora_basis = o.basis;
  request.force = o.force;
  std::map<const CLI::Option*, std::size_t> next;
  for (const CLI::Option* option : o.app->parse_order()) {
    const std::string name = option->get_single_name();
    if (name != "lora" && name != "lora-alpha") continue;
    const std::string& value = option->results().at(next[option]++);
    if (name == "lora") {
      TRITIUM_TRY_ASSIGN(LoraInput lora, parse_lora(value));
      request.loras.push_back(std::move(lora));
      continue;
    }
    const auto alpha = number(value);
    if (!alpha || !std::isfinite(*alpha) || *alpha <= 0) return usage("lora-alpha", fmt::format("'{}' is not a number above 0", value));
    if (request.loras.empty()) return usage("lora-alpha", "does not follow a --lora", "give it directly behind the LoRA it belongs to");
    request.loras.back().alpha = alpha;
  }
  return {};
}

}  // namespace tritium::cli
