#include "weights/quant/logical_tensors.h"

#include "base/try.h"
#include "weights/quant/matrix_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <set>

namespace tritium {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"model.diffusion_model.", "diffusion_model."};
constexpr std::string_view kWeight = ".weight", kMarker = ".comfy_quant", kState = ".weight.quant_state.bitsandbytes__nf4";
constexpr std::string_view kForeignState = ".quant_state.bitsandbytes__", kForeignPack = ".qweight", kLegacyMarker = "scaled_fp8";
constexpr std::string_view kMetadataKey = "_quantization_metadata";
constexpr std::uint64_t kMarkerLimit = 64u << 10;
constexpr std::size_t kProblemsShown = 8;

std::string_view prefix_of(std::string_view name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) return prefix;
  return {};
}
std::string without_prefix(std::string_view name) { return std::string(name.substr(prefix_of(name).size())); }

// "L" of "L<suffix>"; empty when the name does not end so.
std::string_view layer_of(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : std::string_view{};
}

}  // namespace

// Sorts the tensors of a checkpoint into layers, then describes each weight. Layers are keyed by their stored names.
class LogicalTensorsBuilder {
 public:
  explicit LogicalTensorsBuilder(const Checkpoint& checkpoint) : checkpoint_(checkpoint) { out_.checkpoint_ = &checkpoint; }

  Result<LogicalTensors> build() {
    TRITIUM_TRY(read_metadata());
    for (const std::string& name : checkpoint_.names()) sort(*checkpoint_.find(name));
    for (const TensorInfo* tensor : ordinary_) add(*tensor);
    notice_orphans();
    TRITIUM_TRY(conclude());
    return std::move(out_);
  }

 private:
  // Everything a layer owns besides its weight and ordinary tensors such as the bias.
  struct Extras {
    SideTensors sides;
    const TensorInfo* marker = nullptr;
    const TensorInfo* state = nullptr;
    std::vector<const TensorInfo*> all;
    bool used = false;
  };

  struct Problem {
    const TensorInfo* where;  // tells the file
    Error error;
  };

  Result<void> read_metadata() {
    for (const TensorFile& file : checkpoint_.files()) {
      const auto found = file.header().metadata.find(kMetadataKey);
      if (found == file.header().metadata.end()) continue;
      auto parsed = parse_quant_metadata(found->second);
      if (!parsed.ok())
        return Error{ErrorCode::model,
                     fmt::format("'{}': its metadata '{}': {}", file.path().string(), kMetadataKey, parsed.error().message), "", ""};
      for (auto& [layer, options] : *parsed)
        if (!metadata_.emplace(without_prefix(layer), std::move(options)).second)
          return Error{ErrorCode::model,
                       fmt::format("'{}': its metadata '{}' describes '{}' twice", file.path().string(), kMetadataKey, layer), "", ""};
    }
    return {};
  }

  void sort(const TensorInfo& tensor) {
    const std::string_view name = tensor.name;
    if (name == kLegacyMarker || name.ends_with("." + std::string(kLegacyMarker))) return sort_legacy(tensor);
    if (const auto layer = layer_of(name, kMarker); !layer.empty()) return remember(layer, tensor).marker = &tensor, void();
    if (const auto layer = layer_of(name, kState); !layer.empty()) return remember(layer, tensor).state = &tensor, void();
    if (name.find(kForeignState) != std::string_view::npos)
      return refuse(tensor, "this kind of bitsandbytes quantization is not supported, only nf4 is");
    if (name.ends_with(kForeignPack)) return refuse(tensor, "packed by GPTQ, AutoAWQ or SVDQuant, which is not supported");
    for (const SideName& side : kSideNames) {
      const auto layer = layer_of(name, side.suffix);
      if (layer.empty() || checkpoint_.find(std::string(layer) + std::string(kWeight)) == nullptr) continue;
      const TensorInfo*& slot = remember(layer, tensor).sides.*side.member;
      if (slot != nullptr) return refuse(tensor, fmt::format("it stands for the same as '{}'", slot->name));
      slot = &tensor;
      return;
    }
    ordinary_.push_back(&tensor);
  }

  void sort_legacy(const TensorInfo& tensor) {
    if (tensor.dtype != DType::f8_e4m3 && tensor.dtype != DType::f8_e5m2) return refuse(tensor, "it must be F8_E4M3 or F8_E5M2");
    legacy_fp8_ = true;
    legacy_full_precision_ |= tensor.elements() == 2;
  }

  Extras& remember(std::string_view layer, const TensorInfo& tensor) {
    Extras& extras = extras_[std::string(layer)];
    extras.all.push_back(&tensor);
    return extras;
  }

  void refuse(const TensorInfo& tensor, const std::string& what) {
    problems_.push_back({&tensor, Error{ErrorCode::model, what, tensor.name, ""}});
  }

  void add(const TensorInfo& tensor) {
    LogicalTensor logical{without_prefix(tensor.name), tensor.shape, std::nullopt, &tensor, tensor.bytes};
    if (const auto layer = layer_of(tensor.name, kWeight); !layer.empty()) {
      Extras none;
      const auto found = extras_.find(layer);
      Extras& extras = found == extras_.end() ? none : found->second;
      extras.used = true;
      auto described = describe({std::string(layer), &tensor, extras.sides}, extras);
      if (!described.ok()) return problems_.push_back({&tensor, std::move(described).error()});
      logical.shape = std::move(described->shape);
      logical.quant = described->quant;
      for (const TensorInfo* extra : extras.all) logical.bytes += extra->bytes;
    }
    if (out_.tensors_.empty()) out_.prefix_ = prefix_of(tensor.name);
    const std::string name = logical.name;
    if (!out_.tensors_.emplace(name, std::move(logical)).second) refuse(tensor, "it is there with and without a prefix");
  }

  // The order of lookup of spec/weights.md §3.
  Result<DescribedWeight> describe(const LayerFacts& facts, const Extras& extras) {
    const auto entry = metadata_.find(without_prefix(facts.layer));
    const bool in_metadata = entry != metadata_.end();
    if (in_metadata) metadata_used_.insert(entry->first);
    if (extras.marker != nullptr) return describe_by_marker(facts, *extras.marker);
    if (in_metadata) {
      if (!entry->second.ok())
        return Error{ErrorCode::model, fmt::format("its entry in '{}': {}", kMetadataKey, entry->second.error().message),
                     facts.weight->name, ""};
      return describe_marked(facts, *entry->second, DescribedBy::metadata);
    }
    const bool fp8 = facts.weight->dtype == DType::f8_e4m3 || facts.weight->dtype == DType::f8_e5m2;
    if (legacy_fp8_ && fp8 && facts.weight->shape.size() == 2) return describe_legacy_fp8(facts, legacy_full_precision_);
    if (extras.state != nullptr) {
      TRITIUM_TRY_ASSIGN(const std::string text, text_of(*extras.state));
      return describe_nf4(facts, text);
    }
    return describe_unmarked(facts);
  }

  Result<DescribedWeight> describe_by_marker(const LayerFacts& facts, const TensorInfo& marker) {
    TRITIUM_TRY_ASSIGN(const std::string text, text_of(marker));
    auto options = parse_quant_marker(text);
    if (!options.ok()) return Error{ErrorCode::model, options.error().message, marker.name, ""};
    return describe_marked(facts, *options, DescribedBy::marker);
  }

  Result<std::string> text_of(const TensorInfo& tensor) const {
    if (tensor.dtype != DType::u8 || tensor.shape.size() != 1)
      return Error{ErrorCode::model,
                   fmt::format("it is {} {}, expected a U8 vector holding JSON", dtype_name(tensor.dtype), shape_text(tensor.shape)),
                   tensor.name, ""};
    if (tensor.bytes > kMarkerLimit)
      return Error{ErrorCode::model, fmt::format("it has {} bytes, the limit is {}", tensor.bytes, kMarkerLimit), tensor.name, ""};
    std::string text(tensor.bytes, '\0');
    TRITIUM_TRY(checkpoint_.read(tensor, std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size())));
    return text;
  }

  void notice_orphans() {
    for (const auto& [layer, extras] : extras_)
      if (!extras.used) out_.notices_.push_back(fmt::format("'{}' describes a weight that is not there", extras.all.front()->name));
    for (const auto& [layer, options] : metadata_)
      if (!metadata_used_.contains(layer)) out_.notices_.push_back(fmt::format("the metadata describes '{}', which is not there", layer));
    for (const TensorInfo* tensor : ordinary_)
      for (const SideName& side : kSideNames)
        if (!layer_of(tensor->name, side.suffix).empty()) {
          out_.notices_.push_back(fmt::format("'{}' belongs to no weight", tensor->name));
          break;
        }
  }

  Result<void> conclude() const {
    if (problems_.empty()) return {};
    const auto& [where, first] = problems_.front();
    std::vector<std::string> shown;
    for (const Problem& problem : std::span(problems_).first(std::min(problems_.size(), kProblemsShown)))
      shown.push_back(fmt::format("'{}': {}", problem.error.field, problem.error.message));
    std::string message = fmt::format("'{}' cannot be used: {}", file_holding(checkpoint_, where->name), fmt::join(shown, "; "));
    if (problems_.size() > shown.size()) message += fmt::format("; and {} more", problems_.size() - shown.size());
    return Error{ErrorCode::model, std::move(message), first.field, first.hint};
  }

  const Checkpoint& checkpoint_;
  LogicalTensors out_;
  std::map<std::string, Result<QuantOptions>, std::less<>> metadata_;
  std::set<std::string> metadata_used_;
  std::map<std::string, Extras, std::less<>> extras_;
  std::vector<const TensorInfo*> ordinary_;
  std::vector<Problem> problems_;
  bool legacy_fp8_ = false, legacy_full_precision_ = false;
};

std::string file_holding(const Checkpoint& checkpoint, std::string_view tensor) {
  for (const TensorFile& file : checkpoint.files())
    if (file.header().tensors.contains(tensor)) return file.path().string();
  return "";
}

std::int64_t LogicalTensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

Result<LogicalTensors> LogicalTensors::open(const Checkpoint& checkpoint) { return LogicalTensorsBuilder(checkpoint).build(); }

const LogicalTensor* LogicalTensors::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<std::vector<float>> LogicalTensors::read_f32(const LogicalTensor& tensor) const {
  TRITIUM_TRY_ASSIGN(const MatrixReader reader, MatrixReader::open(*checkpoint_, tensor));
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  TRITIUM_TRY(reader.decode_rows(0, reader.rows(), out));
  return out;
}

}  // namespace tritium
