// A request with its files read and everything decided.
#pragma once

#include "pipeline/conditions.h"
#include "pipeline/lora.h"
#include "pipeline/machine.h"

namespace tritium {

struct PreparedRequest {
  Plan plan;
  Inputs inputs;
  PromptInputs prompt;
  std::vector<ChosenLora> loras;
};

// Decides jobs for one model. Everything given outlives it.
class JobPlanner {
 public:
  JobPlanner(const ModelInfo& model, const Tokenizer& tokenizer, const MachineOptions& machine, DeviceSet& devices, const Parts& parts)
      : model_(model), tokenizer_(tokenizer), machine_(machine), devices_(devices), parts_(parts) {}

  // Errors: usage, does_not_fit, model, interrupted.
  Result<PreparedRequest> prepare(const Request& request, const CancelToken* cancel) const;

 private:
  Result<PlanInputs> plan_inputs(const Inputs& inputs) const;
  Result<void> add_input_costs(const PreparedRequest& job, PlanInputs& in) const;
  Result<void> describe_memory(const PreparedRequest& job, PlanInputs& in) const;
  Result<PlanInputs::Weights> input_weights(const Inputs& inputs, MatrixForm form) const;
  Result<ModelShape> shape_of(const PreparedRequest& job, MatrixForm form) const;

  const ModelInfo& model_;
  const Tokenizer& tokenizer_;
  const MachineOptions& machine_;
  DeviceSet& devices_;
  const Parts& parts_;
};

}  // namespace tritium
