// The factors of matched pairs: reading, row orders, q, k and v in one pair.
#include "base/try.h"
#include "weights/lora/match.h"

#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

std::int64_t first_row(const LoraTarget& target, LoraSlice slice) {
  const std::int64_t part = slice == LoraSlice::k ? 1 : slice == LoraSlice::v ? 2 : 0;
  return part * (target.out / 3);
}

// The piece's B, scaled, into its rows and columns of the adapter's.
Result<void> place_up(const LoraPiece& piece, std::span<const float> b, std::int64_t row, std::int64_t column, std::int64_t rank,
                      std::vector<float>& up) {
  const auto width = static_cast<std::size_t>(piece.rank);
  const auto rows = static_cast<std::int64_t>(b.size() / width);
  return for_each_run(piece.order, 0, rows, [&](std::int64_t first, std::int64_t count, std::int64_t position) -> Result<void> {
    for (std::int64_t i = 0; i < count; ++i) {
      const float* from = b.data() + static_cast<std::size_t>(first + i) * width;
      float* to = up.data() + (row + position + i) * rank + column;
      for (std::size_t k = 0; k < width; ++k) to[k] = static_cast<float>(static_cast<double>(from[k]) * piece.scale);
    }
    return {};
  });
}

}  // namespace

Result<LoraFactors> read_factors(const LoraMatch& match, const LoraAdapter& adapter) {
  const LoraTarget& target = match.targets[adapter.target];
  const Checkpoint& checkpoint = match.file->checkpoint();
  LoraFactors out;
  out.up.assign(static_cast<std::size_t>(target.out * adapter.rank), 0.0f);
  std::int64_t column = 0;
  for (const LoraPiece& piece : adapter.pieces) {
    TRITIUM_TRY_ASSIGN(std::vector<float> a, checkpoint.read_f32(*piece.down));
    TRITIUM_TRY_ASSIGN(const std::vector<float> b, checkpoint.read_f32(*piece.up));
    if (piece.projected) {
      out.bias = projected_bias(*match.basis, a, b);
      for (float& value : out.bias) value = static_cast<float>(static_cast<double>(value) * piece.scale);
      a = project_down(*match.basis, a);
    }
    TRITIUM_TRY(place_up(piece, b, first_row(target, piece.slice), column, adapter.rank, out.up));
    out.down.insert(out.down.end(), a.begin(), a.end());
    column += piece.rank;
  }
  return out;
}

std::uint64_t LoraMatch::bytes() const {
  std::int64_t values = 0;
  for (const LoraAdapter& adapter : adapters) values += adapter.rank * (targets[adapter.target].in + targets[adapter.target].out);
  return sizeof(float) * static_cast<std::uint64_t>(values);
}

Result<void> drop_not_finite(LoraMatch& match, const CancelToken* cancel) {
  const Checkpoint& checkpoint = match.file->checkpoint();
  for (LoraAdapter& adapter : match.adapters)
    for (std::size_t i = 0; i < adapter.pieces.size();) {
      if (cancel != nullptr) TRITIUM_TRY(cancel->check("loading"));
      std::string name;
      for (const TensorInfo* factor : {adapter.pieces[i].down, adapter.pieces[i].up}) {
        TRITIUM_TRY_ASSIGN(const std::vector<float> values, checkpoint.read_f32(*factor));
        if (!all_finite(values)) name = factor->name;
      }
      if (name.empty()) {
        ++i;
        continue;
      }
      match.report.skipped.push_back({LoraSkip::Why::not_finite, name, "it holds values that are not finite"});
      --match.report.matched;
      match.report.projected -= adapter.pieces[i].projected ? 1 : 0;
      adapter.rank -= adapter.pieces[i].rank;
      adapter.pieces.erase(adapter.pieces.begin() + static_cast<std::ptrdiff_t>(i));
    }
  std::erase_if(match.adapters, [](const LoraAdapter& adapter) { return adapter.pieces.empty(); });
  match.report.layers = match.adapters.size();
  if (!match.adapters.empty()) return {};
  return Error{ErrorCode::model, "no pair of '" + match.file->path().string() + "' has finite values", "lora", "the file is damaged"};
}

}  // namespace tritium
