// Measured speeds in the user's cache folder: {"tritium": VERSION, "ggml": VERSION, "speeds": [{...}]}.
#include "base/files.h"
#include "base/try.h"
#include "doctor/speeds.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tritium {
namespace doctor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxBytes = 1u << 20;

struct Number {
  const char* key;
  double& (*of)(MeasuredSpeeds&);
  bool added = false;  // missing in files of earlier builds of this version
};
template <ProductKind kind>
double& operations(MeasuredSpeeds& s) {
  return s.of(kind).operations;
}
template <ProductKind kind>
double& values(MeasuredSpeeds& s) {
  return s.of(kind).values;
}
constexpr Number kNumbers[] = {{"f32", operations<ProductKind::f32>},
                               {"bf16", operations<ProductKind::bf16>},
                               {"int8", operations<ProductKind::decoded>},
                               {"int8_products", operations<ProductKind::int8>, true},
                               {"sound", operations<ProductKind::sound>, true},
                               {"f32_values", values<ProductKind::f32>, true},
                               {"bf16_values", values<ProductKind::bf16>, true},
                               {"int8_values", values<ProductKind::decoded>, true},
                               {"int8_products_values", values<ProductKind::int8>, true},
                               {"sound_values", values<ProductKind::sound>, true},
                               {"attention", [](MeasuredSpeeds& s) -> double& { return s.attention; }},
                               {"attention_bf16", [](MeasuredSpeeds& s) -> double& { return s.narrow_attention; }, true},
                               {"host_copy", [](MeasuredSpeeds& s) -> double& { return s.host_copy; }},
                               {"upload", [](MeasuredSpeeds& s) -> double& { return s.upload; }},
                               {"disk", [](MeasuredSpeeds& s) -> double& { return s.disk; }}};
struct Text {
  const char* key;
  std::string MeasuredSpeeds::*member;
};
constexpr Text kTexts[] = {{"device", &MeasuredSpeeds::device},
                           {"description", &MeasuredSpeeds::description},
                           {"disk_how", &MeasuredSpeeds::disk_how},
                           {"measured", &MeasuredSpeeds::measured}};

nlohmann::ordered_json to_json(MeasuredSpeeds speeds) {
  nlohmann::ordered_json out;
  for (const Text& text : kTexts) out[text.key] = speeds.*text.member;
  out["threads"] = speeds.threads;
  for (const Number& number : kNumbers) out[number.key] = number.of(speeds);
  return out;
}

// None: something is missing or makes no sense.
std::optional<MeasuredSpeeds> from_json(const Json& json) {
  MeasuredSpeeds out;
  if (!json.is_object()) return std::nullopt;
  for (const Text& text : kTexts) {
    const auto found = json.find(text.key);
    if (found == json.end() || !found->is_string()) return std::nullopt;
    out.*text.member = found->get<std::string>();
  }
  const auto threads = json.find("threads");
  if (threads == json.end() || !threads->is_number_integer()) return std::nullopt;
  out.threads = threads->get<int>();
  for (const Number& number : kNumbers) {
    const auto found = json.find(number.key);
    if (found == json.end() && number.added) continue;
    if (found == json.end() || !found->is_number()) return std::nullopt;
    const auto value = found->get<double>();
    if (!std::isfinite(value) || value < 0) return std::nullopt;
    number.of(out) = value;
  }
  return out;
}

// All of this version; `warning` is set when the file is there and cannot be used.
std::vector<MeasuredSpeeds> read_all(const fs::path& file, std::string& warning) {
  std::vector<MeasuredSpeeds> out;
  std::error_code code;
  if (file.empty() || !fs::exists(file, code)) return out;
  const auto broken = [&](const std::string& why) {
    warning = fmt::format("'{}' is ignored: {} ('tritium doctor' writes it anew)", file.string(), why);
    return std::vector<MeasuredSpeeds>();
  };
  const Result<std::string> text = read_file(file, kMaxBytes);
  if (!text.ok()) return broken(text.error().message);
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("speeds") || !json["speeds"].is_array()) return broken("it is not a table of speeds");
  if (json.value("tritium", Json()) != TRITIUM_VERSION || json.value("ggml", Json()) != backend_library_version()) return out;
  for (const Json& each : json["speeds"]) {
    auto speeds = from_json(each);
    if (!speeds) return broken("an entry is incomplete or has values that cannot be");
    out.push_back(std::move(*speeds));
  }
  return out;
}

bool same_device(const MeasuredSpeeds& a, const std::string& device, const std::string& description) {
  return a.device == device && a.description == description;
}

}  // namespace

fs::path speeds_file() {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "speeds.json";
}

Result<void> store_speeds(const std::vector<MeasuredSpeeds>& speeds) {
  const fs::path file = speeds_file();
  if (file.empty()) return Error{ErrorCode::failure, "there is no folder for the measured speeds", "", "set XDG_CACHE_HOME or HOME"};
  std::string ignored;
  std::vector<MeasuredSpeeds> all = read_all(file, ignored);
  std::erase_if(all, [&](const MeasuredSpeeds& old) {
    return std::any_of(speeds.begin(), speeds.end(), [&](const MeasuredSpeeds& s) { return same_device(old, s.device, s.description); });
  });
  all.insert(all.end(), speeds.begin(), speeds.end());
  nlohmann::ordered_json json = {
      {"tritium", TRITIUM_VERSION}, {"ggml", backend_library_version()}, {"speeds", nlohmann::ordered_json::array()}};
  for (const MeasuredSpeeds& each : all) json["speeds"].push_back(to_json(each));
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot create '{}': {}", file.parent_path().string(), code.message()), "", ""};
  return write_file_atomically(file, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace doctor

std::optional<MeasuredSpeeds> stored_speeds(const DeviceInfo& device, std::string* warning) {
  std::string problem;
  const std::vector<MeasuredSpeeds> all = doctor::read_all(doctor::speeds_file(), problem);
  if (warning != nullptr) *warning = problem;
  for (const MeasuredSpeeds& each : all)
    if (doctor::same_device(each, device.name, device.description)) return each;
  return std::nullopt;
}

}  // namespace tritium
