// Low-rank adapters folded into weights before they are encoded: W + c·B·A, and adapters written in another dialect.
#pragma once

#include "weights/convert/row_source.h"
#include "weights/lora/match.h"

#include <tritium/cancel.h>

#include <filesystem>
#include <mutex>

namespace tritium {

// The layers of a transformer that adapters may change, from the shapes of its tensors.
std::vector<LoraTarget> lora_targets(const WeightPart& dit);
// Those of the released model, for adapters whose base is not at hand.
std::vector<LoraTarget> released_lora_targets();

struct MergedLora {
  std::filesystem::path path;
  double strength = 1;
  std::optional<double> alpha;  // in place of what the file says
};

// Several adapters as a delta on a transformer.
class LoraDelta final : public WeightDelta {
 public:
  // Errors: LoraFile::open's, match_lora's; usage for an adapter the base has already, or a second step-distilled one (check_base).
  // `notices` takes what the match reports say. `force`: what check_base and a second step-distilled one would refuse is merged.
  static Result<std::unique_ptr<LoraDelta>> create(const std::vector<MergedLora>& loras, const WeightPart& dit,
                                                   std::vector<std::string>& notices, const CancelToken* cancel, bool force = false);

  [[nodiscard]] bool touches(const std::string& official) const override;
  Result<void> add(const std::string& official, std::int64_t first_row, std::int64_t columns, std::span<float> rows) const override;
  [[nodiscard]] std::string description() const override { return description_; }

 private:
  struct Part {
    std::size_t lora = 0;
    const LoraAdapter* adapter = nullptr;
  };
  struct Loaded {
    std::vector<LoraFactors> factors;  // strength is folded into up and bias
    std::vector<std::int64_t> ranks;
  };
  Result<std::shared_ptr<const Loaded>> load(const std::string& layer, const std::vector<Part>& parts) const;

  std::vector<LoraMatch> matches_;
  std::vector<double> strengths_;
  std::map<std::string, std::vector<Part>> layers_;  // by official name, without ".weight"
  std::map<std::string, bool> biases_;               // layers whose bias changes too: pairs projected onto a centred table
  std::string description_;
  // The factors of the layer at hand: tensors are converted one after the other, by slices.
  mutable std::mutex mutex_;
  mutable std::string loaded_layer_;
  mutable std::shared_ptr<const Loaded> loaded_;
};

// Writes an adapter's matched pairs in another dialect, alpha equal to rank (its own scale is folded into B). Pairs keep the element type
// of the file (F32, F16 or BF16). Metadata of the file goes along, without its alpha.
// Errors: PartFile's, and code failure for a value the type cannot hold.
Result<void> write_lora(const LoraMatch& match, LoraDialect dialect, const std::filesystem::path& target, bool overwrite);
// "diffusers", "comfy", "diffsynth", "kohya", "bare".
std::optional<LoraDialect> lora_dialect_from_name(std::string_view name);

}  // namespace tritium
