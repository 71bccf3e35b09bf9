// Prompts of tests/api/data, and what they are translated with.
#pragma once

#include "server/comfy/translate.h"

#include <gtest/gtest.h>
#include <fstream>
#include <iterator>
#include <string>

namespace tritium::test {

namespace comfy = server::comfy;
using comfy::Json;

// "comfy_t2v": the document of that name.
inline Json prompt_of(const std::string& name) {
  std::ifstream in(std::string(TRITIUM_SOURCE_DIR) + "/tests/api/data/" + name + ".json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Json out = Json::parse(text, nullptr, false);
  EXPECT_FALSE(out.is_discarded()) << name;
  return out;
}

// Every name with an ending exists, at "/files/<name>"; there is one LoRA.
inline comfy::GraphEnvironment plain_environment() {
  comfy::GraphEnvironment out;
  out.find_input = [](const std::string& name) -> Result<std::filesystem::path> {
    if (name.find('.') == std::string::npos || name.find("missing") != std::string::npos)
      return Error{ErrorCode::not_found, "there is no uploaded file '" + name + "'", "", "upload it with POST /upload/image"};
    return std::filesystem::path("/files") / name;
  };
  out.find_lora = [](const std::string& name) -> std::optional<std::filesystem::path> {
    if (name == "style.safetensors") return "/loras/style.safetensors";
    return std::nullopt;
  };
  out.names = {{"diffusion_models", {"dit.safetensors"}}, {"loras", {"style.safetensors"}}};
  return out;
}

inline comfy::Translated translated(const Json& prompt, const std::vector<std::string>& targets = {}) {
  return comfy::translate(prompt, targets, plain_environment(), 1'700'000'000);
}

// The request of a prompt that has to be fine.
inline Request request_of(const Json& prompt) {
  const auto out = translated(prompt);
  if (!out.work) {
    ADD_FAILURE() << out.error->to_json().dump(1);
    return {};
  }
  return out.work->request;
}

// The first problem of a prompt that has to be refused: "id/input/type: details".
inline std::string refusal_of(const Json& prompt) {
  const auto out = translated(prompt);
  if (out.work) return "was accepted";
  const Json errors = out.error->to_json()["node_errors"];
  if (errors.empty()) return out.error->type + ": " + out.error->details;
  const auto first = errors.begin();
  const Json& problem = first.value()["errors"][0];
  return first.key() + "/" + problem["extra_info"].value("input_name", "") + "/" + problem["type"].get<std::string>() + ": " +
         problem["details"].get<std::string>();
}

inline bool has_note(const comfy::Translation& work, const std::string& input, const std::string& from) {
  for (const comfy::Note& each : work.notes)
    if (each.input == input && each.from == from) return true;
  return false;
}

}  // namespace tritium::test
