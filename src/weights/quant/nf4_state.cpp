#include "base/try.h"
#include "weights/quant/layer_checks.h"
#include "weights/quant/untrusted_json.h"

#include <fmt/format.h>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

constexpr std::size_t kStateLimit = 64u << 10;
constexpr std::int64_t kMaxBlock = 1 << 20;

// The JSON of a quant_state (spec/weights.md §4.6).
struct State {
  std::int64_t rows = 0, columns = 0, block = 0;
  std::int64_t nested_block = 0;  // 0: not nested
  double nested_offset = 0;
  DType rounding = DType::bf16;
};

Error bad(std::string what) { return Error{ErrorCode::model, std::move(what), "", ""}; }

Result<std::int64_t> whole_number(const nlohmann::json& state, const char* key, std::int64_t limit) {
  const auto found = state.find(key);
  const std::string shown = found == state.end() ? "missing" : found->dump().substr(0, 80);
  if (found == state.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() < 1 ||
      found->get<std::uint64_t>() > static_cast<std::uint64_t>(limit))
    return bad(fmt::format("'{}' is {}, expected a whole number from 1 to {}", key, shown, limit));
  return found->get<std::int64_t>();
}

Result<std::string> text_of(const nlohmann::json& state, const char* key) {
  const auto found = state.find(key);
  if (found == state.end() || !found->is_string()) return bad(fmt::format("it has no string '{}'", key));
  return found->get<std::string>();
}

Result<void> read_shape(const nlohmann::json& json, State& out) {
  const auto shape = json.find("shape");
  const auto dimension = [](const nlohmann::json& v) {
    return v.is_number_unsigned() && v.get<std::uint64_t>() < static_cast<std::uint64_t>(kMaxQuantDim);
  };
  if (shape == json.end() || !shape->is_array() || shape->size() != 2 || !dimension((*shape)[0]) || !dimension((*shape)[1]) ||
      (*shape)[1] == 0)
    return bad(fmt::format("'shape' is {}, expected two dimensions", shape == json.end() ? "missing" : shape->dump().substr(0, 80)));
  out.rows = (*shape)[0].get<std::int64_t>();
  out.columns = (*shape)[1].get<std::int64_t>();
  return {};
}

Result<State> read_state(std::string_view text) {
  TRITIUM_TRY_ASSIGN(const nlohmann::json json, parse_untrusted_json(text, kStateLimit));
  if (!json.is_object()) return bad("it must be a JSON object");
  State out;
  TRITIUM_TRY_ASSIGN(const std::string type, text_of(json, "quant_type"));
  if (type != "nf4") return bad(fmt::format("'quant_type' is '{}', only 'nf4' is known", type.substr(0, 80)));
  TRITIUM_TRY_ASSIGN(const std::string rounding, text_of(json, "dtype"));
  if (rounding == "float32")
    out.rounding = DType::f32;
  else if (rounding == "float16")
    out.rounding = DType::f16;
  else if (rounding != "bfloat16")
    return bad(fmt::format("'dtype' is '{}', expected bfloat16, float16 or float32", rounding.substr(0, 80)));
  TRITIUM_TRY_ASSIGN(out.block, whole_number(json, "blocksize", kMaxBlock));
  TRITIUM_TRY(read_shape(json, out));
  if (!json.contains("nested_blocksize")) return out;
  TRITIUM_TRY_ASSIGN(out.nested_block, whole_number(json, "nested_blocksize", kMaxBlock));
  const auto offset = json.find("nested_offset");
  if (offset == json.end() || !offset->is_number()) return bad("it has no number 'nested_offset'");
  out.nested_offset = offset->get<double>();
  if (!std::isfinite(static_cast<float>(out.nested_offset))) return bad("'nested_offset' is not finite");
  const auto nested_type = json.find("nested_dtype");
  if (nested_type != json.end() && *nested_type != "float32")
    return bad(fmt::format("'nested_dtype' is {}, expected \"float32\"", nested_type->dump().substr(0, 80)));
  return out;
}

Result<void> check_sides(const LayerChecks& check, const State& state) {
  const std::int64_t blocks = (state.rows * state.columns + state.block - 1) / state.block;
  TRITIUM_TRY_ASSIGN(const TensorInfo* absmax, check.required(&SideTensors::absmax));
  TRITIUM_TRY_ASSIGN(const TensorInfo* map, check.required(&SideTensors::quant_map));
  TRITIUM_TRY(check.shape(*absmax, {{blocks}, {blocks, 1}}));
  TRITIUM_TRY(check.real(*map));
  TRITIUM_TRY(check.shape(*map, {{16}}));
  if (state.nested_block == 0) {
    TRITIUM_TRY(check.real(*absmax));
    return check.nothing_but({&SideTensors::absmax, &SideTensors::quant_map});
  }
  TRITIUM_TRY_ASSIGN(const TensorInfo* nested, check.required(&SideTensors::nested_absmax));
  TRITIUM_TRY_ASSIGN(const TensorInfo* nested_map, check.required(&SideTensors::nested_quant_map));
  TRITIUM_TRY(check.type(*absmax, {DType::u8}));
  TRITIUM_TRY(check.real(*nested));
  const std::int64_t nested_blocks = (blocks + state.nested_block - 1) / state.nested_block;
  TRITIUM_TRY(check.shape(*nested, {{nested_blocks}, {nested_blocks, 1}}));
  TRITIUM_TRY(check.real(*nested_map));
  TRITIUM_TRY(check.shape(*nested_map, {{256}}));
  return check.nothing_but({&SideTensors::absmax, &SideTensors::quant_map, &SideTensors::nested_absmax, &SideTensors::nested_quant_map});
}

}  // namespace

Result<DescribedWeight> describe_nf4(const LayerFacts& facts, std::string_view text) {
  const TensorInfo& weight = *facts.weight;
  const auto state = read_state(text);
  if (!state.ok()) return Error{ErrorCode::model, "its quant_state: " + state.error().message, weight.name, ""};
  const LayerChecks check(facts, "nf4");
  TRITIUM_TRY(check.type(weight, {DType::u8}));
  const std::int64_t packed = (state->rows * state->columns + 1) / 2;
  TRITIUM_TRY(check.shape(weight, {{packed, 1}, {packed}, {1, packed}}));
  TRITIUM_TRY(check_sides(check, *state));
  QuantDescription quant;
  quant.format = QuantFormat::nf4;
  quant.described_by = DescribedBy::bitsandbytes;
  quant.full_precision = true;
  quant.group = state->block;
  quant.nested_group = state->nested_block;
  quant.nested_offset = static_cast<float>(state->nested_offset);
  quant.rounding = state->rounding;
  quant.sides = facts.sides;
  return DescribedWeight{{state->rows, state->columns}, quant};
}

}  // namespace tritium
