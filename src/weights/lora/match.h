// A LoRA file on a model: which pairs apply where, how strongly, which do not and why; and the factors in the engine's row order.
#pragma once

#include "base/cancel.h"
#include "weights/lora/file.h"
#include "weights/lora/projection.h"
#include "weights/quant/row_order.h"

namespace tritium {

// Where a pair's alpha comes from, the strongest first.
enum class LoraAlpha { given, tensor, metadata, table, none };

// How many pairs have a scale alpha / rank (1 without an alpha).
struct LoraScale {
  double value = 1, alpha = 0;  // alpha: 0 without one
  std::int64_t rank = 0;
  LoraAlpha from = LoraAlpha::none;
  std::size_t pairs = 0;
};

struct LoraSkip {
  enum class Why { unknown, wrong_shape, incomplete, wrong_type, not_finite, modulation };
  Why why = Why::unknown;
  std::string key;     // a tensor, or the layer of a pair
  std::string detail;  // both shapes, the factor that is missing, ...
};

struct LoraReport {
  std::size_t pairs = 0, matched = 0;  // pairs of factors
  std::size_t layers = 0;              // of the model that change
  std::map<LoraDialect, std::size_t> dialects;
  std::vector<LoraScale> scales;
  std::vector<LoraSkip> skipped;
  std::size_t projected = 0;  // adaLN pairs brought to a pruned model's input
  std::vector<std::string> notes;
};

// For people: one line about what applies with the effective scales c = strength·alpha/rank, and one per reason for what does not.
std::vector<std::string> lora_report_lines(const LoraReport& report, const std::string& name, double strength);
// "0.0625 (strength 1 x alpha 8 / rank 128, alpha from the file's metadata)", one for every distinct scale.
std::string lora_scale_text(const LoraReport& report, double strength);

struct LoraPiece {
  const TensorInfo *down = nullptr, *up = nullptr;
  LoraSlice slice = LoraSlice::whole;
  std::int64_t rank = 0;
  double scale = 1;        // alpha / rank
  RowOrder order;          // of B; empty: as in the file
  bool projected = false;  // A is as wide as the full model's time embedding
};

struct LoraAdapter {
  std::size_t target = 0;
  std::int64_t rank = 0;          // of all pieces together
  std::vector<LoraPiece> pieces;  // the whole matrix, or some of q, k and v
};

struct LoraMatch {
  std::shared_ptr<const LoraFile> file;
  std::vector<LoraTarget> targets;
  std::vector<LoraAdapter> adapters;  // by target
  std::shared_ptr<const AdalnBasis> basis;
  LoraReport report;

  [[nodiscard]] std::uint64_t bytes() const;  // of all factors as float32
};

struct LoraMatchOptions {
  std::optional<double> alpha;        // in place of everything the file says
  std::optional<double> table_alpha;  // where the file says nothing
  std::shared_ptr<const AdalnBasis> basis;
};

// Reads headers and alphas only. Errors: model for a file of which nothing fits (shows keys of both sides), with two pairs for one layer,
// or with an alpha that is no number; usage for a given alpha out of range.
Result<LoraMatch> match_lora(std::shared_ptr<const LoraFile> file, std::vector<LoraTarget> targets, const LoraMatchOptions& options = {});

// Reads all factors once and moves pairs with values that are not finite to the skipped ones. Error as match_lora when nothing is left.
Result<void> drop_not_finite(LoraMatch& match, const CancelToken* cancel = nullptr);

// down [rank, in] and up [out, rank] with alpha/rank folded into up, rows in the engine's order. q, k and v of one layer become one pair
// of block structure; one that is missing adds zero.
struct LoraFactors {
  std::vector<float> down, up;
  std::vector<float> bias;  // [out] of projected pairs on a centred table; empty: nothing
};
Result<LoraFactors> read_factors(const LoraMatch& match, const LoraAdapter& adapter);

}  // namespace tritium
