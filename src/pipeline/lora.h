// The LoRAs of a request: found, matched to the model, held to what they were made for, and attached (spec/dit.md §13).
#pragma once

#include "model/dit/lora.h"
#include "pipeline/model_info.h"
#include "weights/lora/contract.h"

#include <tritium/plan.h>
#include <tritium/request.h>

namespace tritium {

struct ChosenLora {
  LoraInput input;  // with the file found
  std::shared_ptr<LoraMatch> match;
  std::optional<LoraContract> contract;
  std::string warning;  // what could not be decided for it
};

// A path, or a name (with or without ".safetensors") in a folder "loras" beside or above the model. Error (usage, field "lora") lists the
// folders looked into.
Result<std::filesystem::path> find_lora(const std::filesystem::path& name, const ModelInfo& model);

// Reads the LoRAs and checks everything that can be refused before the model's weights are read. Pairs with values that are not finite are
// moved to the skipped ones. Errors: usage for values and combinations that contradict what a step-distilled LoRA was made for (unless the
// request says force); model for files that are none, do not fit or have no finite pair; interrupted.
Result<std::vector<ChosenLora>> open_loras(const Request& request, const ModelInfo& model, const CancelToken* cancel);

// What step-distilled LoRAs set where the request says nothing; each change is recorded.
void apply_contracts(std::span<const ChosenLora> loras, const Request& request, ModelDefaults& defaults,
                     std::vector<Adjustment>& adjustments);

// Adds to plan.loras, plan.notes and plan.warnings.
void describe_loras(std::span<const ChosenLora> loras, Plan& plan);

std::uint64_t lora_bytes(std::span<const ChosenLora> loras);  // on the device

// The adapters that a transformer carries from one request to the next.
class AttachedLoras {
 public:
  // Takes off what another request left and attaches these; does nothing if they are there already.
  Result<void> use(Dit& dit, std::span<const ChosenLora> loras, const CancelToken* cancel);

  // Takes everything off: the transformer is about to go.
  void release() { *this = AttachedLoras(); }

 private:
  std::string key_;
  DitAdapters adapters_;
};

}  // namespace tritium
