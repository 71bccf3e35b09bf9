#include "model/vision/frame.h"

#include "base/try.h"
#include "model/vision/gelu.h"
#include "ops/attention.h"
#include "ops/norm.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace tritium {
namespace {

constexpr float kEps = 1e-6f;               // of every layer norm
constexpr std::int64_t kMaxParts = 512;     // parts of one attention in one graph
constexpr std::int64_t kNodesPerPart = 16;  // that ops::attention makes
constexpr std::int64_t kOtherNodes = 512;

// Query rows whose scores ops::attention holds at once.
std::int64_t part_rows(const VisionConfig& c, std::int64_t keys) {
  return std::max<std::int64_t>(1, ops::kMaxAttentionScores / (keys * c.heads));
}

// Rows of one graph: whole groups of patches, and no more than kMaxParts parts of attention over `keys`.
std::int64_t whole_groups(const VisionConfig& c, std::int64_t keys, std::int64_t rows) {
  const std::int64_t most = std::min({rows, keys, kMaxParts * part_rows(c, keys)});
  return std::max<std::int64_t>(1, most / c.patch.group()) * c.patch.group();
}

ggml_tensor* layer_norm(Graph& graph, ggml_tensor* x, const VisionNorm& norm) {
  return ops::layer_norm(graph, x, norm.weight, norm.bias, kEps);
}

// Rows of [features, rows] and of [width, heads, rows].
ggml_tensor* rows_of_2d(Graph& graph, ggml_tensor* t, std::int64_t first, std::int64_t rows) {
  return ggml_view_2d(graph.context(), t, t->ne[0], rows, t->nb[1], static_cast<std::size_t>(first) * t->nb[1]);
}
ggml_tensor* rows_of_3d(Graph& graph, ggml_tensor* t, std::int64_t first, std::int64_t rows) {
  return ggml_view_3d(graph.context(), t, t->ne[0], t->ne[1], rows, t->nb[1], t->nb[2], static_cast<std::size_t>(first) * t->nb[2]);
}

}  // namespace

VisionFrame::VisionFrame(Device& device, const VisionConfig& config, const VisionWeights& weights, const PatchGrid& grid,
                         std::int64_t slice_rows)
    : device_(device),
      config_(config),
      weights_(weights),
      grid_(grid),
      slice_rows_(whole_groups(config, grid.h * grid.w, slice_rows)),
      positions_(position_blend(config, grid)),
      pool_(6) {}

Result<void> VisionFrame::allocate() {
  const std::int64_t pairs = config_.head_dim() / 2;
  state_ = pool_.add("vision.state", GGML_TYPE_F32, {config_.hidden, rows()});
  for (ggml_tensor** each : {&q_, &k_, &v_}) *each = pool_.add("vision.heads", GGML_TYPE_F32, {config_.head_dim(), config_.heads, rows()});
  for (ggml_tensor** each : {&rotary_.cos, &rotary_.sin}) *each = pool_.add("vision.rotary", GGML_TYPE_F32, {pairs, 1, rows()});
  TRITIUM_TRY(pool_.allocate(device_, fmt::format("the vision tower's state for {}x{} patches", grid_.h, grid_.w)));
  const ops::RotaryValues values = ops::rotary_values(vision_angles(config_, grid_));
  upload(rotary_.cos, values.cos);
  upload(rotary_.sin, values.sin);
  return {};
}

Result<void> VisionFrame::encode(const std::string& scope, std::span<const float> patches, VisionRows& out, const CancelToken* cancel,
                                 const std::function<void()>& block_done) {
  if (static_cast<std::int64_t>(patches.size()) != rows() * config_.patch.features())
    return Error{ErrorCode::failure, fmt::format("{} values are not {} patches of {}", patches.size(), rows(), config_.patch.features()),
                 "", ""};
  out.deepstack.resize(weights_.deepstack.size());
  for (const Slice& slice : slices(scope + ".embed")) TRITIUM_TRY(embed(slice, patches, cancel));
  std::size_t set = 0;
  for (std::size_t i = 0; i < weights_.blocks.size(); ++i) {
    for (const Slice& slice : slices(fmt::format("{}.block{}.qkv", scope, i))) TRITIUM_TRY(project(weights_.blocks[i], slice, cancel));
    for (const Slice& slice : slices(fmt::format("{}.block{}", scope, i))) TRITIUM_TRY(transform(weights_.blocks[i], slice, cancel));
    if (set < weights_.deepstack.size() && config_.deepstack_blocks[set] == static_cast<int>(i)) {
      TRITIUM_TRY(merge(weights_.deepstack[set], fmt::format("{}.deepstack{}", scope, set), out.deepstack[set], cancel));
      ++set;
    }
    if (block_done) block_done();
  }
  return merge(weights_.merger, scope + ".merger", out.merged, cancel);
}

std::vector<VisionFrame::Slice> VisionFrame::slices(const std::string& scope) const {
  std::vector<Slice> out;
  for (std::int64_t first = 0; first < rows(); first += slice_rows_)
    out.push_back({first, std::min(slice_rows_, rows() - first), slice_rows_ >= rows() ? scope : fmt::format("{}.row{}", scope, first)});
  return out;
}

Result<void> VisionFrame::embed(const Slice& slice, std::span<const float> patches, const CancelToken* cancel) {
  Graph graph(device_, slice.scope);
  ggml_context* context = graph.context();
  const auto first = static_cast<std::size_t>(slice.first), count = static_cast<std::size_t>(slice.rows);
  const auto features = static_cast<std::size_t>(config_.patch.features());
  ggml_tensor* pixels = graph.input("pixels", patches.subspan(first * features, count * features), {config_.patch.features(), slice.rows});
  ggml_tensor* x = graph.name("patch_embed", ops::linear(graph, weights_.patch_embed, pixels));
  ggml_tensor* position = nullptr;
  for (std::size_t corner = 0; corner < positions_.rows.size(); ++corner) {
    ggml_tensor* row = graph.input_i32("table_row", std::span(positions_.rows[corner]).subspan(first, count));
    ggml_tensor* weight = graph.input("table_weight", std::span(positions_.weights[corner]).subspan(first, count), {1, slice.rows});
    ggml_tensor* term = ggml_mul(context, ggml_get_rows(context, weights_.position_table, row), weight);
    position = position == nullptr ? term : ggml_add(context, position, term);
  }
  x = ggml_add(context, x, graph.name("pos_embed", position));
  graph.effect(ggml_cpy(context, graph.name("out", x), rows_of_2d(graph, state_, slice.first, slice.rows)));
  return graph.run(cancel);
}

// Queries, keys and values of some rows. All rows have theirs before transform() changes the first one.
Result<void> VisionFrame::project(const VisionBlockWeights& block, const Slice& slice, const CancelToken* cancel) {
  Graph graph(device_, slice.scope);
  ggml_context* context = graph.context();
  ggml_tensor* h = layer_norm(graph, rows_of_2d(graph, state_, slice.first, slice.rows), block.norm1);
  ggml_tensor* qkv = ops::linear(graph, block.qkv, graph.name("attn_in", h));  // [3·hidden, rows]
  const auto part = [&](std::int64_t index) {
    const std::size_t element = ggml_element_size(qkv);
    return ggml_view_3d(context, qkv, config_.head_dim(), config_.heads, slice.rows, static_cast<std::size_t>(config_.head_dim()) * element,
                        qkv->nb[1], static_cast<std::size_t>(index * config_.hidden) * element);
  };
  const ops::RotaryTable table{rows_of_3d(graph, rotary_.cos, slice.first, slice.rows),
                               rows_of_3d(graph, rotary_.sin, slice.first, slice.rows)};
  const auto store = [&](ggml_tensor* x, ggml_tensor* all) {
    graph.effect(ggml_cpy(context, x, rows_of_3d(graph, all, slice.first, slice.rows)));
  };
  store(graph.name("q_rope", ops::rotate(graph, part(0), table)), q_);
  store(graph.name("k_rope", ops::rotate(graph, part(1), table)), k_);
  store(graph.name("v", part(2)), v_);
  return graph.run(cancel);
}

// The block itself for some rows, which see the keys of all rows.
Result<void> VisionFrame::transform(const VisionBlockWeights& block, const Slice& slice, const CancelToken* cancel) {
  const std::int64_t parts = slice.rows / part_rows(config_, rows()) + 1;
  Graph graph(device_, slice.scope, static_cast<std::size_t>(kOtherNodes + parts * kNodesPerPart));
  ggml_context* context = graph.context();
  ggml_tensor* state = rows_of_2d(graph, state_, slice.first, slice.rows);
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim())));
  ggml_tensor* mixed = ops::attention(graph, rows_of_3d(graph, q_, slice.first, slice.rows), k_, v_, scale, ops::AttentionMask::none,
                                      ops::kMaxAttentionScores, ops::product_precision(block.qkv));
  ggml_tensor* x = ggml_add(context, state, ops::linear(graph, block.proj, graph.name("attn_heads", mixed)));
  ggml_tensor* h = graph.name("mlp_in", layer_norm(graph, graph.name("after_attn", x), block.norm2));
  x = ggml_add(context, x, ops::linear(graph, block.fc2, gelu_tanh(graph, ops::linear(graph, block.fc1, h))));
  graph.watch(x);
  graph.effect(ggml_cpy(context, graph.name("out", x), state));
  return graph.run(cancel);
}

Result<void> VisionFrame::merge(const VisionMergerWeights& merger, const std::string& scope, std::vector<float>& out,
                                const CancelToken* cancel) {
  for (const Slice& slice : slices(scope)) {
    Graph graph(device_, slice.scope);
    const std::int64_t group = config_.patch.group();
    const auto join = [&](ggml_tensor* t) { return ggml_reshape_2d(graph.context(), t, config_.hidden * group, slice.rows / group); };
    ggml_tensor* x = rows_of_2d(graph, state_, slice.first, slice.rows);
    x = merger.norm_after_joining ? layer_norm(graph, join(x), merger.norm) : join(layer_norm(graph, x, merger.norm));
    x = ops::linear(graph, merger.fc2, gelu_erf(graph, ops::linear(graph, merger.fc1, x)));
    graph.watch(x);
    ggml_tensor* result = graph.output("out", x);
    TRITIUM_TRY(graph.run(cancel));
    const std::vector<float> values = graph.read(result);
    out.insert(out.end(), values.begin(), values.end());
  }
  return {};
}

std::uint64_t VisionFrame::bytes(const VisionConfig& c, const PatchGrid& grid) {
  const std::int64_t rows = grid.h * grid.w, slice = whole_groups(c, rows, kVisionSliceRows);
  const std::int64_t lasting = rows * (4 * c.hidden + c.head_dim());
  const std::int64_t scores = c.heads * rows * std::min(slice, part_rows(c, rows));
  const std::int64_t attending = 2 * rows * c.hidden + scores + slice * 4 * c.hidden;
  const std::int64_t feeding = slice * (4 * c.hidden + 3 * c.ffn);
  const std::int64_t embedding = slice * (2 * c.patch.features() + 6 * c.hidden);  // the pixels also wait on the host
  const std::int64_t projecting = slice * 10 * c.hidden;
  return sizeof(float) * static_cast<std::uint64_t>(lasting + std::max({attending, feeding, embedding, projecting}));
}

}  // namespace tritium
