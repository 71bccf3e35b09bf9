#include "server/native/acceleration.h"

namespace tritium::server::native {

using nlohmann::json;

namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 53;  // the engine says what it takes
constexpr double kUsualThreshold = 0.2;

void collect(const Fields& from, Fields& fields, std::vector<std::string>& warnings) {
  if (!from.ok()) fields.fail(*from.error());
  for (const std::string& sentence : from.unknown()) warnings.push_back(sentence);
}

void read_easycache(Fields& of, Acceleration& out, std::vector<std::string>& warnings) {
  const json* value = of.find({"easycache"});
  if (value == nullptr) return;
  if (value->is_boolean()) {
    if (value->get<bool>()) out.easycache = kUsualThreshold;
    return;
  }
  if (!value->is_object()) {
    out.easycache = of.number({"easycache"});
    return;
  }
  Fields f(*value, false, of.where() + ".easycache");
  out.easycache = f.number({"threshold", "reuse_threshold"}).value_or(kUsualThreshold);
  out.easycache_start = f.number({"start", "start_percent"}).value_or(out.easycache_start);
  out.easycache_end = f.number({"end", "end_percent"}).value_or(out.easycache_end);
  collect(f, of, warnings);
}

}  // namespace

Acceleration read_acceleration(Fields& fields, std::vector<std::string>& warnings) {
  Acceleration out;
  const auto given = fields.object({"acceleration"});
  if (!given) return out;
  Fields f(*given, false, "acceleration");
  out.reuse_velocity = f.whole({"reuse_velocity"}, -kHuge, kHuge).value_or(out.reuse_velocity);
  out.reuse_core = f.whole({"reuse_core"}, -kHuge, kHuge).value_or(out.reuse_core);
  read_easycache(f, out, warnings);
  out.blocks = f.whole({"blocks"}, -kHuge, kHuge);
  out.draft = f.flag({"draft"}).value_or(false);
  collect(f, fields, warnings);
  return out;
}

}  // namespace tritium::server::native
