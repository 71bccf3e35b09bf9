#include "pipeline/lora.h"

#include "base/hash.h"
#include "base/try.h"
#include "weights/partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr int kFoldersAbove = 3;  // from a ComfyUI part's folder up to "models"

Error usage(std::string field, std::string message, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(message), std::move(field), std::move(hint)};
}

std::string name_of(const ChosenLora& lora) { return lora.input.file.filename().string(); }
const char* partition_key(Partition partition) { return partition == Partition::fl2va ? "fl2va" : "ref2va"; }

// Folders named "loras" in the model's folder and in those above it and above the transformer's file.
std::vector<fs::path> lora_folders(const ModelInfo& model) {
  std::vector<fs::path> out;
  std::error_code ignored;
  std::vector<fs::path> starts{model.root};
  for (const auto& file : model.dit->checkpoint().files()) starts.push_back(file.path().parent_path());
  for (fs::path folder : starts) {
    folder = fs::absolute(folder, ignored).lexically_normal();
    for (int i = 0; i <= kFoldersAbove && folder.has_relative_path(); ++i, folder = folder.parent_path())
      if (const fs::path loras = folder / "loras";
          fs::is_directory(loras, ignored) && std::find(out.begin(), out.end(), loras) == out.end())
        out.push_back(loras);
  }
  return out;
}

Result<void> check_input(const LoraInput& input) {
  if (input.file.empty()) return usage("lora", "no file given");
  if (!std::isfinite(input.strength)) return usage("lora", fmt::format("'{}': the strength is no number", input.file.string()));
  return {};
}

// The name is the only sign of the partition that a LoRA carries, besides a contract.
Result<void> check_partition_of(const std::string& file, Partition model) {
  const auto made_for = partition_in_text(file);
  if (!made_for || *made_for == model) return {};
  return usage("lora",
               fmt::format("'{}' was made for {} by its name, this is the {} model: it does not transfer", file, partition_name(*made_for),
                           partition_name(model)),
               "--force does it all the same");
}

Result<std::shared_ptr<const AdalnBasis>> basis_for(const Request& request, const ModelInfo& model) {
  if (request.lora_basis.empty()) return dit_adaln_basis(*model.dit, model.dit_config, nullptr);
  TRITIUM_TRY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(request.lora_basis));
  return dit_adaln_basis(*model.dit, model.dit_config, &checkpoint);
}

std::string basis_key(const AdalnBasis* basis) {
  return basis == nullptr ? std::string() : sha256_hex({reinterpret_cast<const char*>(basis->v.data()), basis->v.size() * sizeof(float)});
}

// Without adaLN pairs no basis is needed.
bool has_modulation(const std::vector<std::shared_ptr<const LoraFile>>& files) {
  return std::any_of(files.begin(), files.end(), [](const auto& file) { return file->signature().modulation; });
}

Result<void> check_choice(const Request& request, const ModelInfo& model, const BaseMark& mark, const ChosenLora& lora) {
  const std::string name = name_of(lora);
  if (request.force) return {};
  TRITIUM_TRY(check_base(name, lora.contract.has_value(), mark));
  if (!lora.contract) return check_partition_of(name, model.partition);
  const ContractWishes wishes{request.steps,
                              request.video_shift,
                              request.audio_shift,
                              lora.input.alpha,
                              request.official_reference_size,
                              partition_key(model.partition),
                              false};
  TRITIUM_TRY(check_wishes(name, *lora.contract, wishes));
  return lora.contract->partition.empty() ? check_partition_of(name, model.partition) : Result<void>{};
}

}  // namespace

Result<fs::path> find_lora(const fs::path& name, const ModelInfo& model) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  const std::vector<fs::path> folders = lora_folders(model);
  if (!name.is_absolute())
    for (const fs::path& folder : folders)
      for (const char* end : {"", ".safetensors"})
        if (fs::path path = folder / (name.string() + end); fs::is_regular_file(path, ignored)) return path;
  std::vector<std::string> looked;
  for (const fs::path& folder : folders) looked.push_back(folder.string());
  return usage("lora", fmt::format("there is no file '{}'{}", name.string(),
                                   looked.empty() ? std::string(", and no folder 'loras' beside the model")
                                                  : fmt::format(", nor in {}", fmt::join(looked, ", "))));
}

Result<std::vector<ChosenLora>> open_loras(const Request& request, const ModelInfo& model, const CancelToken* cancel) {
  std::vector<ChosenLora> out;
  if (request.loras.empty()) {
    if (!request.lora_basis.empty()) return usage("lora_basis", "given without a LoRA");
    return out;
  }
  std::vector<std::shared_ptr<const LoraFile>> files;
  const BaseMark mark = base_mark(model.dit->checkpoint());
  for (const LoraInput& input : request.loras) {
    TRITIUM_TRY(check_input(input));
    ChosenLora lora{input, nullptr, std::nullopt, {}};
    TRITIUM_TRY_ASSIGN(lora.input.file, find_lora(input.file, model));
    TRITIUM_TRY_ASSIGN(auto file, LoraFile::open(lora.input.file));
    TRITIUM_TRY_ASSIGN(lora.contract, contract_of(*file));
    if (!lora.contract) lora.warning = contract_hint(file->name(), file->signature());
    TRITIUM_TRY(check_choice(request, model, mark, lora));
    for (const ChosenLora& other : out) {
      if (other.contract && lora.contract && !request.force)
        TRITIUM_TRY(check_agreement(name_of(other), *other.contract, name_of(lora), *lora.contract));
      if (fs::equivalent(other.input.file, lora.input.file))
        return usage("lora", fmt::format("'{}' is given twice", lora.input.file.string()), "add the strengths up");
    }
    files.push_back(std::move(file));
    out.push_back(std::move(lora));
  }
  LoraMatchOptions options;
  if (has_modulation(files) || !request.lora_basis.empty()) { TRITIUM_TRY_ASSIGN(options.basis, basis_for(request, model)); }
  const std::vector<LoraTarget> targets = dit_lora_targets(model.dit_config);
  for (std::size_t i = 0; i < out.size(); ++i) {
    options.alpha = out[i].input.alpha;
    options.table_alpha = out[i].contract ? out[i].contract->alpha : std::nullopt;
    TRITIUM_TRY_ASSIGN(LoraMatch match, match_lora(files[i], targets, options));
    TRITIUM_TRY(drop_not_finite(match, cancel));
    out[i].match = std::make_shared<LoraMatch>(std::move(match));
  }
  return out;
}

void apply_contracts(std::span<const ChosenLora> loras, const Request& request, ModelDefaults& defaults,
                     std::vector<Adjustment>& adjustments) {
  const auto first = std::find_if(loras.begin(), loras.end(), [](const ChosenLora& l) { return l.contract && l.input.strength != 0; });
  if (first == loras.end()) return;
  const LoraContract& contract = *first->contract;
  const auto set = [&](const char* field, bool given, auto& value, auto wanted) {
    if (given || value == wanted) return;
    adjustments.push_back({field, fmt::format("{:g}", static_cast<double>(value)), fmt::format("{:g}", static_cast<double>(wanted)),
                           fmt::format("the LoRA '{}' ({}) was made for it", name_of(*first), contract.name)});
    value = wanted;
  };
  set("steps", request.steps.has_value(), defaults.steps, contract.steps);
  set("video_shift", request.video_shift.has_value(), defaults.video_shift, contract.video_shift);
  set("audio_shift", request.audio_shift.has_value(), defaults.audio_shift, contract.audio_shift);
}

void describe_loras(std::span<const ChosenLora> loras, Plan& plan) {
  for (const ChosenLora& lora : loras) {
    const LoraReport& report = lora.match->report;
    LoraPlan entry;
    entry.file = lora.input.file.string();
    entry.header_sha256 = lora.match->file->header_sha256();
    entry.strength = lora.input.strength;
    for (const LoraScale& scale : report.scales) entry.scales.push_back(lora.input.strength * scale.value);
    entry.scale_text = lora_scale_text(report, lora.input.strength);
    entry.pairs = static_cast<std::int64_t>(report.pairs);
    entry.matched = static_cast<std::int64_t>(report.matched);
    entry.layers = static_cast<std::int64_t>(report.layers);
    entry.bytes = lora.input.strength == 0 ? 0 : lora.match->bytes();
    if (lora.contract) entry.made_for = lora.contract->name;
    for (const LoraSkip& skip : report.skipped) entry.skipped.push_back(fmt::format("{}: {}", skip.key, skip.detail));
    plan.loras.push_back(std::move(entry));
    const auto lines = lora_report_lines(report, name_of(lora), lora.input.strength);
    for (std::size_t i = 0; i < lines.size(); ++i)
      (lines[i].find(": skipped ") != std::string::npos ? plan.warnings : plan.notes).push_back(lines[i]);
    if (!lora.warning.empty()) plan.warnings.push_back(fmt::format("LoRA {}: {}", name_of(lora), lora.warning));
  }
}

std::uint64_t lora_bytes(std::span<const ChosenLora> loras) {
  std::uint64_t sum = 0;
  for (const ChosenLora& lora : loras) sum += lora.input.strength == 0 ? 0 : lora.match->bytes();
  return sum;
}

namespace {

// What a set of adapters is known by.
std::string key_of(std::span<const ChosenLora> loras) {
  std::string key;
  for (const ChosenLora& lora : loras) {
    std::error_code ignored;
    const auto changed = fs::last_write_time(lora.input.file, ignored).time_since_epoch().count();
    key += fmt::format("{}|{}|{}|{}|{}|{}\n", lora.input.file.string(), changed, lora.input.strength, lora.input.alpha.value_or(0),
                       lora.match->file->header_sha256(), basis_key(lora.match->basis.get()));
  }
  return key;
}

}  // namespace

bool AttachedLoras::has(std::span<const ChosenLora> loras) const { return key_of(loras) == key_; }

Result<void> AttachedLoras::use(Dit& dit, std::span<const ChosenLora> loras, const CancelToken* cancel) {
  std::string key = key_of(loras);
  if (key == key_) return {};
  adapters_.detach();
  key_.clear();
  std::vector<LoraUse> uses;
  for (const ChosenLora& lora : loras) uses.push_back({lora.match, lora.input.strength});
  TRITIUM_TRY_ASSIGN(adapters_, DitAdapters::attach(dit, uses, cancel));
  key_ = std::move(key);
  return {};
}

}  // namespace tritium
