#include "pipeline/model_report.h"

#include "base/system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using nlohmann::ordered_json;

std::map<std::string, std::uint64_t> bytes_by_dtype(const Checkpoint& checkpoint) {
  std::map<std::string, std::uint64_t> out;
  for (const TensorFile& file : checkpoint.files())
    for (const auto& [name, tensor] : file.header().tensors) out[std::string(dtype_name(tensor.dtype))] += tensor.bytes;
  return out;
}

std::string layers_text(const Identity& identity) {
  std::string out;
  const auto add = [&](int count, const char* what) {
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, what);
  };
  add(identity.layers, identity.role == PartRole::dit ? "blocks" : "layers");
  add(identity.refiner_layers, "refiner blocks");
  add(identity.vision_layers, "vision blocks");
  return out;
}

// "attention: int8 convrot 256 x100, 9.11 GiB"
std::string formats_text(const Identity& identity) {
  std::string out, group;
  for (const FormatShare& share : identity.formats) {
    if (share.group != group) out += fmt::format("{}{}: ", out.empty() ? "" : "\n             ", share.group);
    out += fmt::format("{}{} x{}, {}", share.group == group ? "; " : "", share.format, share.tensors, format_bytes(share.bytes));
    group = share.group;
  }
  return out;
}

}  // namespace

std::string dtypes_text(const Checkpoint& checkpoint) {
  std::string out;
  for (const auto& [dtype, bytes] : bytes_by_dtype(checkpoint))
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", dtype, format_bytes(bytes));
  return out;
}

ordered_json checkpoint_json(const Checkpoint& checkpoint) {
  ordered_json files = ordered_json::array();
  for (const TensorFile& file : checkpoint.files())
    files.push_back({{"path", file.path().string()}, {"bytes", file.file_bytes()}, {"metadata", file.header().metadata}});
  return {{"tensors", checkpoint.names().size()},
          {"bytes", checkpoint.tensor_bytes()},
          {"dtypes", bytes_by_dtype(checkpoint)},
          {"files", files}};
}

ordered_json identity_json(const Identity& identity) {
  ordered_json out{{"role", role_key(identity.role)}, {"role_reason", identity.reason},          {"container", identity.container},
                   {"layout", identity.layout},       {"layout_reason", identity.layout_reason}, {"logical_tensors", identity.tensors},
                   {"layers", identity.layers}};
  if (identity.role == PartRole::dit) {
    const auto verdict = identity.partition.verdict();
    out["variant"] = identity.pruned ? "pruned" : "full";
    out["refiner_layers"] = identity.refiner_layers;
    out["order_doubtful"] = identity.order_doubtful;
    out["partition"] = verdict ? ordered_json(partition_name(*verdict)) : ordered_json(nullptr);
    out["partition_evidence"] = identity.partition.text();
  }
  if (identity.role == PartRole::text_encoder) out["vision_layers"] = identity.vision_layers;
  out["formats"] = ordered_json::array();
  for (const FormatShare& share : identity.formats)
    out["formats"].push_back({{"group", share.group}, {"format", share.format}, {"tensors", share.tensors}, {"bytes", share.bytes}});
  out["main_format"] = identity.main_format;
  for (const auto& [key, list] : {std::pair("extras", &identity.extras),
                                  {"missing", &identity.missing},
                                  {"unexpected", &identity.unexpected},
                                  {"warnings", &identity.warnings},
                                  {"notices", &identity.notices}})
    out[key] = *list;
  out["signature"] = identity.signature;
  out["known_as"] = identity.known_as;
  out["metadata"] = identity.metadata;
  return out;
}

std::string identity_text(const Identity& identity) {
  std::string out;
  const auto line = [&](const char* what, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<10} {}\n", what, text);
  };
  const auto lines = [&](const char* what, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) line(what, text);
  };
  const std::string layers = layers_text(identity);
  line("is", fmt::format("{}{}{}{} ({})", identity.role == PartRole::dit ? (identity.pruned ? "pruned " : "full ") : "",
                         role_name(identity.role), layers.empty() ? "" : ", ", layers, identity.reason));
  line("known as", identity.known_as);
  if (!identity.layout.empty()) line("layout", fmt::format("{}: {}", identity.layout, identity.layout_reason));
  if (identity.role == PartRole::dit) {
    const auto verdict = identity.partition.verdict();
    line("partition", verdict ? identity.partition.text() : fmt::format("cannot be told: {}", identity.partition.text()));
  }
  line("formats", formats_text(identity));
  lines("extra", identity.extras);
  if (!identity.missing.empty()) line("MISSING", fmt::format("{}", fmt::join(identity.missing, ", ")));
  if (!identity.unexpected.empty()) line("unexpected", fmt::format("{}", fmt::join(identity.unexpected, ", ")));
  lines("warning", identity.warnings);
  lines("note", identity.notices);
  line("signature", identity.signature);
  for (const auto& [key, value] : identity.metadata) line("metadata", fmt::format("{} = {}", key, value));
  return out;
}

}  // namespace tritium
