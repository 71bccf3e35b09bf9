#include "weights/convert/plan.h"

#include "base/hash.h"
#include "base/try.h"
#include "weights/dit_names.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace tritium {
namespace {

constexpr const char* kMerged = "tritium.merged_loras";
constexpr std::string_view kQkv = "attn.qkv_proj.weight", kModulation = "adaln_proj.linear.weight";

Error usage(std::string field, std::string what, std::string hint = {}) {
  return Error{ErrorCode::usage, std::move(what), std::move(field), std::move(hint)};
}

class Planner {
 public:
  Planner(const ConvertSource& source, const ConvertOptions& options, const CancelToken* cancel)
      : source_(source), options_(options), cancel_(cancel), rules_{source.kind, options.format, options.container, options.keep, false} {}

  Result<ConvertPlan> plan() {
    pruned_ = source_.kind == PartKind::dit && source_.part->has("adaln_t_table");
    if (options_.prune_rank != 0) TRITIUM_TRY(make_curve());
    rules_.pruned = pruned_ || out_.curve;
    TRITIUM_TRY(decide_row_order());
    for (const std::string& name : source_.names) {
      if (out_.curve && name.starts_with("time_embedder.")) continue;
      TRITIUM_TRY(add(name));
    }
    if (out_.curve) TRITIUM_TRY(add_curve());
    if (out_.tensors.empty()) return Error{ErrorCode::model, fmt::format("'{}' has no tensor to convert", source_.part->where()), "", ""};
    TRITIUM_TRY(add_metadata());
    std::map<std::string, GroupError> none;
    for (const PlannedTensor& tensor : out_.tensors)
      if (tensor.encoder) none[layer_group(tensor.target)] = {};
    TRITIUM_TRY_ASSIGN(out_.layout, layout_with_errors(out_, options_.container, error_text(none)));
    return std::move(out_);
  }

 private:
  Result<void> make_curve() {
    if (source_.kind != PartKind::dit)
      return usage("prune", fmt::format("only a transformer can be pruned, not the {}", part_kind_name(source_.kind)));
    if (pruned_) return usage("prune", fmt::format("'{}' is pruned already", source_.part->where()), "leave --prune out");
    TimeNetwork embedder;
    const auto read = [&](const char* name, std::vector<float>& out) -> Result<void> {
      TRITIUM_TRY_ASSIGN(const RowSourcePtr rows, part_rows(*source_.part, name, options_.delta));
      TRITIUM_TRY_ASSIGN(out, read_all(*rows));
      return {};
    };
    TRITIUM_TRY(read("time_embedder.proj_in.weight", embedder.in_weight));
    TRITIUM_TRY(read("time_embedder.proj_in.bias", embedder.in_bias));
    TRITIUM_TRY(read("time_embedder.proj_out.weight", embedder.out_weight));
    TRITIUM_TRY(read("time_embedder.proj_out.bias", embedder.out_bias));
    TRITIUM_TRY_ASSIGN(out_.curve, make_curve_table(embedder, options_.prune_rank, options_.threads, cancel_));
    return {};
  }

  // DiffSynth's NF4 files of the full transformer keep the official order of qkv rows, and are read so (spec/weights.md §1.2).
  Result<void> decide_row_order() {
    if (source_.kind != PartKind::dit || rules_.pruned) return {};
    const std::string name = "blocks.0." + std::string(kQkv);
    const PlacedTensor placed = source_.part->find(name);
    if (!placed.found()) return {};
    TRITIUM_TRY_ASSIGN(const FormatChoice choice, rules_.choose({name, name, placed.shape(), &placed}));
    interleaved_ = choice.format.encoding == Encoding::nf4;
    return {};
  }

  Result<void> add(const std::string& official) {
    const PlacedTensor placed = source_.part->find(official);
    if (!placed.found())
      return Error{ErrorCode::model, fmt::format("tensor '{}' is missing in '{}'", official, source_.part->where()), official, ""};
    PlannedTensor tensor;
    tensor.official = official;
    tensor.target = options_.format.encoding == Encoding::nf4 ? official : comfy_name(source_.kind, official);
    tensor.shape = placed.shape();
    tensor.source_format = placed.sources.front()->format_name();
    tensor.source_bytes = placed.bytes();
    const bool projected = out_.curve && official.ends_with(kModulation);
    if (projected) {
      if (tensor.shape.size() != 2 || tensor.shape[1] != out_.curve->width)
        return Error{ErrorCode::model, fmt::format("its shape is {}, expected {} columns", shape_text(tensor.shape), out_.curve->width),
                     official, ""};
      tensor.shape[1] = out_.curve->rank;
    }
    const PlacedTensor computed;
    TRITIUM_TRY_ASSIGN(const FormatChoice choice, rules_.choose({official, tensor.target, tensor.shape, projected ? &computed : &placed}));
    set_source(tensor, placed, projected);
    if (can_copy(tensor, placed, choice)) {
      tensor.copy = placed.sources.front()->stored;
      return declare(std::move(tensor), {{tensor.target, tensor.copy->dtype, tensor.shape}});
    }
    return encode(std::move(tensor), choice);
  }

  void set_source(PlannedTensor& tensor, const PlacedTensor& placed, bool projected) {
    const WeightPart* part = source_.part.get();
    const WeightDelta* delta = options_.delta;
    const std::string name = tensor.official;
    if (projected) {
      tensor.open = [part, delta, name, basis = out_.curve->basis, rank = out_.curve->rank]() -> Result<RowSourcePtr> {
        TRITIUM_TRY_ASSIGN(RowSourcePtr rows, part_rows(*part, name, delta));
        return projected_rows(std::move(rows), basis, rank);
      };
      return;
    }
    RowOrder order;
    if (interleaved_ && name.ends_with(kQkv)) {
      const auto norm = part->shape(name.substr(0, name.size() - kQkv.size()) + "attn.q_norm.weight");
      if (norm && norm->size() == 1 && (*norm)[0] > 0 && placed.shape()[0] % (3 * (*norm)[0]) == 0)
        order = interleaved_qkv(placed.shape()[0] / (3 * (*norm)[0]), (*norm)[0]);
    }
    reordered_ = !order.empty();
    tensor.open = [part, delta, name, order]() -> Result<RowSourcePtr> {
      TRITIUM_TRY_ASSIGN(RowSourcePtr rows, part_rows(*part, name, delta));
      return order.empty() ? std::move(rows) : reordered_rows(std::move(rows), order);
    };
  }

  [[nodiscard]] bool can_copy(const PlannedTensor& tensor, const PlacedTensor& placed, const FormatChoice& choice) const {
    const LogicalTensor& source = *placed.sources.front();
    return placed.sources.size() == 1 && placed.order.empty() && !source.quant && choice.format.encoding == Encoding::plain &&
           choice.format.dtype == source.stored->dtype && tensor.shape == source.stored->shape && !reordered_ &&
           (options_.delta == nullptr || !options_.delta->touches(tensor.official));
  }

  Result<void> encode(PlannedTensor tensor, const FormatChoice& choice) {
    tensor.reason = choice.reason;
    TRITIUM_TRY_ASSIGN(tensor.encoder,
                       MatrixEncoder::create({tensor.target, tensor.shape, choice.format, choice.rotation, choice.full_precision}));
    const std::vector<TensorDeclaration> outputs = tensor.encoder->outputs();
    return declare(std::move(tensor), outputs);
  }

  Result<void> declare(PlannedTensor tensor, const std::vector<TensorDeclaration>& outputs) {
    tensor.first_output = declarations_;
    declarations_ += outputs.size();
    out_.declarations.insert(out_.declarations.end(), outputs.begin(), outputs.end());
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  Result<void> add_curve() {
    const CurveTable& curve = *out_.curve;
    const TargetFormat f32 = *target_format("f32");
    const auto put = [&](const char* name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
      PlannedTensor tensor;
      tensor.official = tensor.target = name;
      tensor.open = [values, columns = shape[1]]() -> Result<RowSourcePtr> { return memory_rows(values, columns); };
      tensor.shape = std::move(shape);
      return encode(std::move(tensor), {f32, 0, false, {}});
    };
    TRITIUM_TRY(put("adaln_t_table", {curve.points, curve.rank}, curve.table));
    // Not of the format: what adapters of the full modulation need to be brought to this model (spec/dit.md §13.4).
    return put("adaln_basis", {curve.rank, curve.width}, std::vector<float>(curve.basis->begin(), curve.basis->end()));
  }

  Result<void> add_metadata() {
    FileMetadata& m = out_.metadata;
    if (options_.container == Container::gguf) {
      constexpr std::array<const char*, 4> kArchitectures = {"minimax_h3", "minimax_h3_te", "minimax_h3_vae", "minimax_h3_audio_vae"};
      m.emplace_back("general.architecture", kArchitectures[static_cast<std::size_t>(source_.kind)]);
    } else {
      m.emplace_back("format", "pt");
    }
    for (const auto& entry : source_.metadata)
      if (entry.first != kMerged || options_.delta == nullptr) m.push_back(entry);  // a delta's list holds those of its base
    if (source_.kind == PartKind::dit) m.emplace_back("tritium.qkv_order", interleaved_ ? "interleaved" : "plain");
    TRITIUM_TRY_ASSIGN(const std::vector<SourceFile> files, identify_files(source_.part->checkpoint()));
    nlohmann::ordered_json sources = nlohmann::ordered_json::array();
    for (const SourceFile& file : files)
      sources.push_back(
          {{"file", std::filesystem::path(file.path).filename().string()}, {"bytes", file.bytes}, {"header_sha256", file.header_sha256}});
    m.emplace_back("tritium.source", sources.dump());
    nlohmann::ordered_json how = {{"part", part_kind_name(source_.kind)}, {"format", options_.format.name}};
    if (out_.curve)
      how["prune"] = {{"rank", out_.curve->rank},
                      {"error_at_points", fmt::format("{:.3e}", out_.curve->error_at_points)},
                      {"error_between", fmt::format("{:.3e}", out_.curve->error_between)}};
    for (const KeepRule& rule : options_.keep) how["keep"].push_back(rule.glob + "=" + rule.format.name);
    m.emplace_back("tritium.format", options_.format.name);
    m.emplace_back("tritium.options", how.dump());
    m.emplace_back("tritium.version", options_.version);
    if (options_.delta != nullptr) m.emplace_back(kMerged, options_.delta->description());
    return {};
  }

  const ConvertSource& source_;
  const ConvertOptions& options_;
  const CancelToken* cancel_;
  ConvertRules rules_;
  ConvertPlan out_;
  std::size_t declarations_ = 0;
  bool pruned_ = false, interleaved_ = false, reordered_ = false;
};

}  // namespace

Result<ConvertPlan> make_convert_plan(const ConvertSource& source, const ConvertOptions& options, const CancelToken* cancel) {
  return Planner(source, options, cancel).plan();
}

Result<FileLayout> layout_with_errors(const ConvertPlan& plan, Container container, const std::string& errors) {
  FileMetadata metadata = plan.metadata;
  metadata.emplace_back(kErrorKey, errors);
  return layout_file(container, plan.declarations, metadata);
}

}  // namespace tritium
