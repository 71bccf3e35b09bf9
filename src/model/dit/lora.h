// Low-rank adapters on a loaded transformer (spec/dit.md §13.1): they lie beside the weights, which stay as they are, quantized or not.
#pragma once

#include "model/dit/dit.h"
#include "weights/lora/match.h"

namespace tritium {

// The linear layers of a transformer that a LoRA may change.
std::vector<LoraTarget> dit_lora_targets(const DitConfig& config);

// The basis that brings adaLN pairs of full models onto a pruned one: "adaln_basis" of the model's own file or of `basis` (may be null), or
// a fit of the model's curve table to the time embedder in `basis`. Null where there is none, and for full models. Errors (code model):
// those of read_adaln_basis and fit_adaln_basis; a basis of another rank than the model's.
Result<std::shared_ptr<const AdalnBasis>> dit_adaln_basis(const WeightPart& model, const DitConfig& config, const Checkpoint* basis);

struct LoraUse {
  std::shared_ptr<const LoraMatch> lora;  // matched against dit_lora_targets()
  double strength = 1;                    // 0: as if it were not there
};

// Adapters in place for as long as this lives. Changing strengths means attaching anew: the model's own weights are not read again.
class DitAdapters {
 public:
  DitAdapters() = default;
  // Reads all factors of all LoRAs; those of one layer follow each other along the rank. The model outlives the adapters. Errors: failure
  // if adapters are attached already or the targets are not this model's; does_not_fit; those of reading.
  static Result<DitAdapters> attach(Dit& dit, std::span<const LoraUse> loras, const CancelToken* cancel = nullptr);

  DitAdapters(DitAdapters&& other) noexcept { *this = std::move(other); }
  DitAdapters& operator=(DitAdapters&& other) noexcept;
  ~DitAdapters() { detach(); }
  void detach();

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  struct Change {
    ops::Linear* layer;
    ggml_tensor* bias;  // the layer's own
  };
  Dit* dit_ = nullptr;
  std::vector<Change> changes_;
  std::map<Device*, TensorPool> pools_;  // beside the layers
};

}  // namespace tritium
