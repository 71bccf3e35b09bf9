// What makes a run cheaper: fewer blocks, and blocks that are not run again. Source: spec/dit.md §14.
#include "base/try.h"
#include "model/dit/dit.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <set>

namespace tritium {
namespace {

constexpr std::int64_t kModalities = 3, kChunks = 6;
constexpr std::int64_t kGateChunks[] = {2, 5};  // of attention and of the MLP

double sum_of_magnitudes(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::abs(value);
  return sum;
}

}  // namespace

Result<std::vector<double>> DitRun::gate_magnitudes(const CancelToken* cancel) {
  // The steps at which other tables are needed.
  std::vector<int> parts;
  for (int step = 0; step < static_cast<int>(steps_.size());) {
    parts.push_back(step);
    const std::vector<float> times = modulation_times(step);
    const auto is_there = [&](float time) { return std::find(times.begin(), times.end(), time) != times.end(); };
    const auto served = [&](int at) {
      const auto& values = steps_[static_cast<std::size_t>(at)].values;
      return std::all_of(values.begin(), values.end(), is_there);
    };
    while (step < static_cast<int>(steps_.size()) && served(step)) ++step;
  }
  std::vector<double> out(dit_->weights().blocks.size());
  std::set<float> seen;
  const auto hidden = static_cast<std::size_t>(config().hidden);
  // Backwards, so that the tables of the first step are there when it begins.
  for (std::size_t part = parts.size(); part-- > 0;) {
    TRITIUM_TRY(prepare_modulation(parts[part], cancel));
    std::vector<int> rows;
    for (const auto& [time, row] : modulation_->index)
      if (seen.insert(time).second) rows.push_back(row);
    for (std::size_t block = 0; block < out.size(); ++block) {
      const auto lock = dit_->weights().shard_of(static_cast<int>(block)).device->lock();
      const std::vector<float> table = download(modulation_->blocks[block]);
      for (const int row : rows)
        for (std::int64_t modality = 0; modality < kModalities; ++modality)
          for (const std::int64_t chunk : kGateChunks) {
            const std::int64_t at = (row * kModalities + modality) * kChunks + chunk;
            out[block] += sum_of_magnitudes(std::span(table).subspan(static_cast<std::size_t>(at) * hidden, hidden));
          }
    }
  }
  const double count = static_cast<double>(seen.size() * hidden) * kModalities * static_cast<double>(std::size(kGateChunks));
  for (double& value : out) value /= count;
  return out;
}

void DitRun::run_only(std::vector<int> blocks) { blocks_ = std::move(blocks); }

Result<void> DitRun::keep_residual() {
  residual_pool_ = TensorPool(1);
  residual_ = residual_pool_.add("dit.residual", GGML_TYPE_F32, {config().hidden, layout_.rows() - layout_.target_audio().first});
  const auto lock = device().lock();
  return residual_pool_.allocate(device(), "what the blocks of the diffusion transformer add");
}

Result<void> DitRun::begin_residual(int step, const CancelToken* cancel) {
  Graph graph(device(), fmt::format("dit.step{}.before", step));
  graph.effect(ggml_cpy(graph.context(), target_rows(graph), residual_));
  return graph.run(cancel);
}

Result<void> DitRun::end_residual(int step, const CancelToken* cancel) {
  Graph graph(device(), fmt::format("dit.step{}.residual", step));
  ggml_tensor* added = graph.name("out", ggml_sub(graph.context(), target_rows(graph), residual_));
  graph.effect(ggml_cpy(graph.context(), added, residual_));
  return graph.run(cancel);
}

Result<DitRows> DitRun::evaluate_with_residual(int step, const DitRows& x, const CancelToken* cancel) {
  TRITIUM_TRY(check_step(step));
  TRITIUM_TRY(prepare_modulation(step, cancel));
  select_modulation(steps_[static_cast<std::size_t>(step)]);
  TRITIUM_TRY(embed(step, x, cancel));
  {
    Graph graph(device(), fmt::format("dit.step{}.reuse", step));
    ggml_tensor* rows = target_rows(graph);
    graph.effect(ggml_cpy(graph.context(), ggml_add(graph.context(), ggml_cont(graph.context(), rows), residual_), rows));
    TRITIUM_TRY(graph.run(cancel));
  }
  return finish(step, cancel);
}

}  // namespace tritium
