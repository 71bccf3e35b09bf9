#include "server/native/loras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <charconv>
#include <cmath>
#include <map>

namespace tritium::server::native {
namespace fs = std::filesystem;

using nlohmann::json;

namespace {

// Every LoRA there is, by its name.
std::map<std::string, fs::path> find_loras(const EngineOptions& engine) {
  std::map<std::string, fs::path> out;
  std::error_code code;
  const fs::path model = fs::absolute(engine.model.empty() ? engine.dit : engine.model, code).lexically_normal();
  fs::path at = model.has_filename() ? model : model.parent_path();
  for (int up = 0; up < 3 && !at.empty(); ++up, at = at.parent_path()) {
    for (fs::directory_iterator entry(at / "loras", code), end; !code && entry != end; entry.increment(code))
      if (entry->path().extension() == ".safetensors" && entry->is_regular_file(code))
        out.emplace(entry->path().stem().string(), entry->path());
    code.clear();
  }
  return out;
}

struct Wanted {
  std::string name;
  LoraInput input;
  std::string path;  // that the client gave
};

std::optional<Wanted> wanted_of(Fields& fields, const json& value, const std::string& where) {
  Wanted out;
  if (value.is_string()) {
    out.name = value.get<std::string>();
    const std::size_t colon = out.name.rfind(':');
    double scale = 0;
    const char* end = out.name.data() + out.name.size();
    if (colon != std::string::npos) {
      const auto [stop, code] = std::from_chars(out.name.data() + colon + 1, end, scale);
      if (code == std::errc() && stop == end && std::isfinite(scale)) {
        out.input.strength = scale;
        out.name.resize(colon);
      }
    }
    return out;
  }
  if (!value.is_object()) {
    fields.fail({ErrorCode::usage, fmt::format("is {}, not a name or an object", kind_of(value)), where,
                 "write {\"name\": \"...\", \"scale\": 1}"});
    return std::nullopt;
  }
  Fields f(value, false, where);
  out.name = f.text({"name", "lora_name"}).value_or("");
  out.path = f.text({"path", "local_path", "lora_path"}).value_or("");
  out.input.strength = f.number({"scale", "strength", "lora_scale"}).value_or(1);
  out.input.alpha = f.number({"alpha"});
  if (out.name.empty() && out.path.empty()) f.refuse("name", "is missing");
  if (f.ok()) return out;
  fields.fail(*f.error());
  return std::nullopt;
}

std::string stem_of(const std::string& name) {
  return name.ends_with(".safetensors") ? name.substr(0, name.size() - std::string_view(".safetensors").size()) : name;
}

}  // namespace

std::vector<std::string> lora_names(const EngineOptions& engine) {
  std::vector<std::string> out;
  for (const auto& [name, file] : find_loras(engine)) out.push_back(name);
  return out;
}

void read_loras(Fields& fields, const EngineOptions& engine, std::vector<LoraInput>& out, std::vector<Adjustment>& adjustments) {
  const Names names = {"lora", "loras"};
  const std::vector<json> values = fields.list(names);
  const std::string field = fields.given_as(names);
  std::map<std::string, fs::path> known;
  if (!values.empty()) known = find_loras(engine);
  for (std::size_t i = 0; i < values.size() && fields.ok(); ++i) {
    const std::string where = values.size() > 1 ? fmt::format("{}[{}]", field, i) : field;
    auto wanted = wanted_of(fields, values[i], where);
    if (!wanted) return;
    const std::string name = stem_of(wanted->path.empty() ? wanted->name : wanted->path.substr(wanted->path.find_last_of("/\\") + 1));
    const auto found = known.find(name);
    if (found == known.end()) {
      std::vector<std::string> there;
      for (const auto& [other, file] : known) there.push_back(other);
      return fields.fail({ErrorCode::usage,
                          fmt::format("there is no LoRA '{}' here; {}", shown(name),
                                      there.empty() ? "there are none" : fmt::format("there are {}", fmt::join(there, ", "))),
                          where, "whoever runs the server puts the file into a folder 'loras' beside the model"});
    }
    if (wanted->path.find_first_of("/\\") != std::string::npos)
      adjustments.push_back({where, wanted->path, name, "files of the server are named without a folder"});
    wanted->input.file = found->second;
    out.push_back(std::move(wanted->input));
  }
}

}  // namespace tritium::server::native
