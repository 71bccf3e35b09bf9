// What step-distilled ("Turbo") LoRAs were trained for: steps, noise schedule, scale (spec/dit.md §13.3). Used otherwise they give noise
// without a word, so choosing one sets these values and values that contradict them are refused.
#pragma once

#include "weights/lora/file.h"

namespace tritium {

struct LoraContract {
  std::string name;  // "lightx2v Turbo, 4 steps, 768p"
  int steps = 0, min_steps = 0, max_steps = 0;
  double video_shift = 0, audio_shift = 0;
  std::optional<double> alpha;        // for files that carry none; absent: the file's own rule
  std::string partition;              // "fl2va" or "ref2va"; empty: not known
  bool reference_size_match = false;  // references at most as large as the clip
};

// By the file's name and by what its pairs look like; both have to fit. None for LoRAs that are no known step-distilled one.
std::optional<LoraContract> find_contract(std::string_view file_name, const LoraSignature& signature);

// The contract a file states itself (metadata "tritium.turbo", a JSON object with name, steps, video_shift, audio_shift and, optionally,
// min_steps, max_steps, alpha, partition, reference_size_match), or that of the table. Error (code model): a statement that makes no sense.
Result<std::optional<LoraContract>> contract_of(const LoraFile& file);
inline constexpr const char* kContractKey = "tritium.turbo";
std::string contract_json(const LoraContract& contract);

// What the name or content of a file hints at where contract_of() knows nothing: a text for a warning, or empty.
std::string contract_hint(std::string_view file_name, const LoraSignature& signature);

// What the user asked for; absent values follow the contract.
struct ContractWishes {
  std::optional<std::int64_t> steps{};
  std::optional<double> video_shift{}, audio_shift{}, alpha{};
  bool official_reference_size = false;
  std::string partition{};  // of the model
  bool force = false;       // nothing is refused
};
// Errors (usage): field, value and what the LoRA was made for.
Result<void> check_wishes(const std::string& file_name, const LoraContract& contract, const ContractWishes& wishes);
// Error (usage, field "lora"): two LoRAs were made for different schedules, or are both step-distilled for other steps.
Result<void> check_agreement(const std::string& first_name, const LoraContract& first, const std::string& second_name,
                             const LoraContract& second);

// What a base checkpoint says about LoRAs that are part of it already: the metadata "tritium.merged_loras" (JSON array of file names or
// objects with "file"), and step distillation in its file name.
struct BaseMark {
  std::vector<std::string> merged;  // file names
  std::string distilled;            // why it is taken for step-distilled; empty: it is not
};
inline constexpr const char* kMergedLorasKey = "tritium.merged_loras";
BaseMark base_mark(const Checkpoint& base);

// Error (usage, field "lora"): a step-distilled LoRA on a base that has one, or a LoRA that is merged already.
Result<void> check_base(const std::string& file_name, bool distilled, const BaseMark& base);

}  // namespace tritium
