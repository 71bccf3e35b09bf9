#include "weights/quant/description.h"

#include "base/try.h"
#include "weights/quant/untrusted_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

constexpr std::size_t kMarkerLimit = 64u << 10;   // spec/weights.md §3
constexpr std::size_t kMetadataLimit = 8u << 20;  // real files stay below 200 kB
constexpr std::int64_t kMaxGroup = 1 << 20;

Error bad(std::string message) { return Error{ErrorCode::model, std::move(message), "", ""}; }

// An option may stand in the entry or in its "params"; null counts as absent. nullptr: absent.
Result<const nlohmann::json*> option(const nlohmann::json& entry, const char* key) {
  const nlohmann::json* found = nullptr;
  if (const auto at = entry.find(key); at != entry.end() && !at->is_null()) found = &*at;
  if (const auto params = entry.find("params"); params != entry.end() && params->is_object()) {
    const auto nested = params->find(key);
    if (nested == params->end() || nested->is_null()) return found;
    if (found != nullptr && *found != *nested) return bad(fmt::format("'{}' is {} but {} in 'params'", key, found->dump(), nested->dump()));
    found = &*nested;
  }
  return found;
}

Result<void> read_flag(const nlohmann::json& entry, const char* key, std::optional<bool>& out) {
  TRITIUM_TRY_ASSIGN(const nlohmann::json* value, option(entry, key));
  if (value == nullptr) return {};
  if (!value->is_boolean()) return bad(fmt::format("'{}' must be true or false, it is {}", key, value->dump().substr(0, 80)));
  out = value->get<bool>();
  return {};
}

Result<void> read_size(const nlohmann::json& entry, const char* key, std::optional<std::int64_t>& out) {
  TRITIUM_TRY_ASSIGN(const nlohmann::json* value, option(entry, key));
  if (value == nullptr) return {};
  const bool in_range = value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 && value->get<std::uint64_t>() <= kMaxGroup;
  if (!in_range) return bad(fmt::format("'{}' must be a whole number from 1 to {}, it is {}", key, kMaxGroup, value->dump().substr(0, 80)));
  out = value->get<std::int64_t>();
  return {};
}

Result<QuantOptions> read_options(const nlohmann::json& entry) {
  QuantOptions out;
  if (entry.is_string()) {
    out.format = entry.get<std::string>();
    return out;
  }
  if (!entry.is_object()) return bad("it must be a JSON object");
  TRITIUM_TRY_ASSIGN(const nlohmann::json* format, option(entry, "format"));
  if (format == nullptr || !format->is_string()) return bad("it has no string 'format'");
  out.format = format->get<std::string>();
  TRITIUM_TRY(read_flag(entry, "full_precision_matrix_mult", out.full_precision));
  TRITIUM_TRY(read_flag(entry, "convrot", out.convrot));
  TRITIUM_TRY(read_size(entry, "convrot_groupsize", out.rotation_group));
  TRITIUM_TRY(read_size(entry, "group_size", out.group));
  return out;
}

}  // namespace

Result<QuantOptions> parse_quant_marker(std::string_view text) {
  TRITIUM_TRY_ASSIGN(const nlohmann::json entry, parse_untrusted_json(text, kMarkerLimit));
  return read_options(entry);
}

Result<MetadataEntries> parse_quant_metadata(std::string_view text) {
  TRITIUM_TRY_ASSIGN(const nlohmann::json whole, parse_untrusted_json(text, kMetadataLimit));
  if (!whole.is_object() || !whole.contains("layers") || !whole["layers"].is_object()) return bad("it has no object 'layers'");
  MetadataEntries out;
  for (const auto& [layer, entry] : whole["layers"].items()) out.emplace_back(layer, read_options(entry));
  return out;
}

}  // namespace tritium
