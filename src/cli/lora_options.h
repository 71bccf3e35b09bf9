// Options for LoRAs.
#pragma once

#include <tritium/request.h>
#include <tritium/result.h>
#include <CLI/CLI.hpp>

namespace tritium::cli {

struct LoraOptions {
  CLI::App* app = nullptr;  // an alpha belongs to the LoRA before it on the command line
  std::vector<std::string> loras, alphas;
  std::string basis;
  bool force = false;
};
void add_lora_options(CLI::App& app, LoraOptions& options);

// "FILE" or "FILE:STRENGTH"; what follows the last colon is a strength only if it is a number. Error (usage): no file, or a strength that
// is not finite.
Result<LoraInput> parse_lora(const std::string& text);

// Into the request's fields. Errors (usage) name the option.
Result<void> read_lora_options(const LoraOptions& options, Request& request);

}  // namespace tritium::cli
