#include "weights/lora/contract.h"

#include "base/try.h"
#include "weights/quant/untrusted_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

using nlohmann::json;

constexpr std::size_t kStatementBytes = 1u << 16;

// lightx2v: attention and MLP of every block, q, k and v apart at one rank, or fused at three times that rank. larryvrh: fused, with adaLN.
enum class Family { none, lightx2v, larryvrh };

Family family_of(const LoraSignature& s) {
  using Ranks = std::map<std::int64_t, std::size_t>;
  if (!s.modulation && s.diffusers_names && s.ranks == Ranks{{128, 312}}) return Family::lightx2v;
  if (!s.modulation && !s.diffusers_names && s.ranks == Ranks{{128, 156}, {384, 52}}) return Family::lightx2v;
  if (s.modulation && s.ranks == Ranks{{16, 51}, {64, 208}}) return Family::larryvrh;
  return Family::none;
}

struct Row {
  Family family;
  std::array<std::string_view, 3> words;  // all of them in the file's name
  const char* name;
  int steps, min_steps, max_steps;
  double video_shift, audio_shift;
  double alpha;  // 0: the file's own
  const char* partition;
  bool match;
};
// From special to general. Alphas belong to rank 128: 8 is a scale of 0.0625, 128 one of 1.
constexpr std::array<Row, 6> kTable = {{
    {Family::lightx2v, {"fl2v", "8step", "768p"}, "lightx2v Turbo fl2v, 8 steps, 768p", 8, 8, 8, 6, 3, 128, "fl2va", false},
    {Family::lightx2v, {"fl2v", "8step", ""}, "lightx2v Turbo fl2v, 8 steps, 544p", 8, 4, 8, 12, 3, 8, "fl2va", false},
    {Family::lightx2v, {"fl2v", "4step", "v0.1"}, "lightx2v Turbo fl2v, 4 steps, 544p", 4, 4, 4, 12, 3, 8, "fl2va", false},
    {Family::lightx2v, {"fl2v", "4step", "v1."}, "lightx2v Turbo fl2v, 4 steps, 768p", 4, 4, 4, 6, 3, 128, "fl2va", false},
    {Family::lightx2v, {"ref2v", "4step", ""}, "lightx2v Turbo ref2v, 4 steps", 4, 4, 4, 12, 3, 0, "ref2va", true},
    {Family::larryvrh, {"", "", ""}, "larryvrh Turbo", 8, 4, 8, 12, 3, 0, "", false},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

// In names "4step", "4-step", "4_steps" are the same.
std::string plain_name(std::string_view file_name) {
  std::string out;
  for (const char c : lower(file_name))
    if (c != '-' && c != '_' && c != ' ') out += c;
  return out;
}

std::string distillation_word(std::string_view file_name) {
  const std::string name = plain_name(file_name);
  for (const char* word : {"turbo", "lightning", "distill", "4step", "8step", "fewstep"})
    if (name.find(word) != std::string::npos) return word;
  return {};
}

Error usage(std::string field, std::string message, std::string hint) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

constexpr const char* kForce = "--force does it all the same";

bool in_range(double value, double least, double most) { return std::isfinite(value) && value >= least && value <= most; }

Result<LoraContract> parse_statement(const json& j) {
  LoraContract c;
  const auto bad = [](const std::string& what) { return Error{ErrorCode::model, what, kContractKey, ""}; };
  if (!j.is_object()) return bad("the statement is not a JSON object");
  try {
    c.name = j.value("name", std::string("step-distilled"));
    c.steps = j.at("steps").get<int>();
    c.min_steps = j.value("min_steps", c.steps);
    c.max_steps = j.value("max_steps", c.steps);
    c.video_shift = j.at("video_shift").get<double>();
    c.audio_shift = j.at("audio_shift").get<double>();
    if (j.contains("alpha")) c.alpha = j["alpha"].get<double>();
    c.partition = j.value("partition", std::string());
    c.reference_size_match = j.value("reference_size_match", false);
  } catch (const json::exception& e) { return bad(e.what()); }
  if (c.min_steps < 1 || c.min_steps > c.steps || c.steps > c.max_steps || c.max_steps > 1000) return bad("its steps are out of range");
  if (!in_range(c.video_shift, 1e-3, 1e3) || !in_range(c.audio_shift, 1e-3, 1e3)) return bad("its shifts are out of range");
  if (c.alpha && !in_range(*c.alpha, 1e-9, 1e9)) return bad("its alpha is out of range");
  if (!c.partition.empty() && c.partition != "fl2va" && c.partition != "ref2va") return bad("its partition is neither fl2va nor ref2va");
  return c;
}

}  // namespace

std::optional<LoraContract> find_contract(std::string_view file_name, const LoraSignature& signature) {
  const Family family = family_of(signature);
  const std::string name = plain_name(file_name);
  for (const Row& row : kTable) {
    const bool named =
        std::all_of(row.words.begin(), row.words.end(), [&](std::string_view w) { return name.find(w) != std::string::npos; });
    if (family == Family::none || row.family != family || !named) continue;
    LoraContract out{row.name,        row.steps,    row.min_steps, row.max_steps, row.video_shift,
                     row.audio_shift, std::nullopt, row.partition, row.match};
    if (row.alpha > 0) out.alpha = row.alpha;
    return out;
  }
  return std::nullopt;
}

Result<std::optional<LoraContract>> contract_of(const LoraFile& file) {
  const std::string* statement = file.metadata(kContractKey);
  if (statement == nullptr) return find_contract(file.name(), file.signature());
  const auto parsed = parse_untrusted_json(*statement, kStatementBytes);
  if (!parsed.ok()) return Error{ErrorCode::model, fmt::format("'{}': {}", file.path().string(), parsed.error().message), kContractKey, ""};
  auto contract = parse_statement(*parsed);
  if (!contract.ok())
    return Error{ErrorCode::model, fmt::format("'{}': {}", file.path().string(), contract.error().message), kContractKey, ""};
  return std::optional(std::move(*contract));
}

std::string contract_json(const LoraContract& c) {
  json out{{"name", c.name},
           {"steps", c.steps},
           {"min_steps", c.min_steps},
           {"max_steps", c.max_steps},
           {"video_shift", c.video_shift},
           {"audio_shift", c.audio_shift}};
  if (c.alpha) out["alpha"] = *c.alpha;
  if (!c.partition.empty()) out["partition"] = c.partition;
  if (c.reference_size_match) out["reference_size_match"] = true;
  return out.dump();
}

std::string contract_hint(std::string_view file_name, const LoraSignature& signature) {
  if (family_of(signature) == Family::lightx2v)
    return "looks like a Turbo LoRA of lightx2v, but its name does not say which one (fl2v or ref2v, 4step or 8step, version): give "
           "--steps, --video-shift, --audio-shift and --lora-alpha yourself";
  if (const std::string word = distillation_word(file_name); !word.empty())
    return fmt::format(
        "its name says '{}', but it is none of the known step-distilled LoRAs: nothing was set for it; give --steps, "
        "--video-shift, --audio-shift and --lora-alpha as its author says",
        word);
  return {};
}

Result<void> check_wishes(const std::string& file_name, const LoraContract& c, const ContractWishes& w) {
  if (w.force) return {};
  const std::string made = fmt::format("'{}' ({}) was made for", file_name, c.name);
  if (w.steps && (*w.steps < c.min_steps || *w.steps > c.max_steps)) {
    const std::string range = c.min_steps == c.max_steps ? std::to_string(c.steps) : fmt::format("{} to {}", c.min_steps, c.max_steps);
    return usage("steps", fmt::format("{}; {} {}", *w.steps, made, range), fmt::format("leave --steps out; {}", kForce));
  }
  const std::tuple<const char*, std::optional<double>, std::optional<double>> values[] = {
      {"video_shift", w.video_shift, c.video_shift}, {"audio_shift", w.audio_shift, c.audio_shift}, {"lora_alpha", w.alpha, c.alpha}};
  for (const auto& [field, wished, contract] : values)
    if (wished && contract && std::abs(*wished - *contract) > 1e-6 * *contract)
      return usage(field, fmt::format("{:g}; {} {:g}", *wished, made, *contract), fmt::format("leave it out; {}", kForce));
  if (c.reference_size_match && w.official_reference_size)
    return usage("official_reference_size", fmt::format("{} references at most as large as the clip", made),
                 fmt::format("use --ref-size match; {}", kForce));
  if (!c.partition.empty() && !w.partition.empty() && c.partition != w.partition)
    return usage("lora", fmt::format("{} the {} model, this is the {} model: it does not transfer", made, c.partition, w.partition),
                 kForce);
  return {};
}

Result<void> check_agreement(const std::string& first_name, const LoraContract& a, const std::string& second_name, const LoraContract& b) {
  const auto text = [](const LoraContract& c) {
    return fmt::format("{} steps with shifts {:g}/{:g}", c.steps, c.video_shift, c.audio_shift);
  };
  if (a.steps == b.steps && a.video_shift == b.video_shift && a.audio_shift == b.audio_shift) return {};
  return usage("lora", fmt::format("'{}' was made for {}, '{}' for {}", first_name, text(a), second_name, text(b)),
               fmt::format("use one of them; {}", kForce));
}

BaseMark base_mark(const Checkpoint& base) {
  BaseMark out;
  for (const auto& file : base.files()) {
    const std::string name = file.path().filename().string();
    if (const std::string word = distillation_word(name); !word.empty() && out.distilled.empty())
      out.distilled = fmt::format("its name, '{}', says '{}'", name, word);
    const auto& metadata = file.header().metadata;
    const auto entry = metadata.find(kMergedLorasKey);
    if (entry == metadata.end()) continue;
    const auto list = parse_untrusted_json(entry->second, kStatementBytes);
    if (!list.ok() || !list->is_array()) {
      out.merged.emplace_back("(unreadable list)");
      continue;
    }
    for (const json& each : *list) {
      if (each.is_string()) out.merged.push_back(each.get<std::string>());
      if (each.is_object() && each.contains("file") && each["file"].is_string()) out.merged.push_back(each["file"].get<std::string>());
    }
  }
  if (!out.merged.empty() && out.distilled.empty())
    for (const std::string& each : out.merged)
      if (!distillation_word(each).empty()) out.distilled = fmt::format("its metadata say that '{}' is merged into it", each);
  return out;
}

Result<void> check_base(const std::string& file_name, bool distilled, const BaseMark& base) {
  if (std::find(base.merged.begin(), base.merged.end(), file_name) != base.merged.end())
    return usage("lora", fmt::format("'{}' is merged into this model already", file_name), fmt::format("leave it out; {}", kForce));
  if (!distilled) return {};
  if (!base.distilled.empty())
    return usage("lora", fmt::format("'{}' is step-distilled, and so is the model: {}", file_name, base.distilled),
                 fmt::format("use one of them; {}", kForce));
  if (!base.merged.empty())
    return usage("lora",
                 fmt::format("'{}' is step-distilled, and the model has LoRAs merged into it: {}", file_name, fmt::join(base.merged, ", ")),
                 fmt::format("use the original model; {}", kForce));
  return {};
}

}  // namespace tritium
