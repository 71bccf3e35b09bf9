// What a conversion will write, decided before anything is written: every tensor, its source, its type and its place in the file.
#pragma once

#include "weights/convert/encoder.h"
#include "weights/convert/prune.h"
#include "weights/convert/row_source.h"
#include "weights/convert/rules.h"

#include <functional>
#include <map>

namespace tritium {

// A part of a model to be converted.
struct ConvertSource {
  PartKind kind = PartKind::dit;
  std::shared_ptr<const WeightPart> part;
  std::vector<std::string> names;  // official names of its tensors, in the order of the target
  FileMetadata metadata;           // configurations, partition, ...: goes into the target as it is
};

// Official names of all tensors of a part, sorted; of the text encoder only those that H3 uses: neither the final norm nor lm_head nor
// layers from `text_layers` on. `part` knows the official names of its file.
std::vector<std::string> convertible_names(PartKind kind, const WeightPart& part, int text_layers = 50);

// The name of an official tensor in ComfyUI's files (spec/weights.md §1.4).
std::string comfy_name(PartKind kind, const std::string& official);

struct ConvertOptions {
  TargetFormat format;
  Container container = Container::safetensors;
  std::vector<KeepRule> keep;
  std::int64_t prune_rank = 0;         // of the curve table; 0: not pruned
  const WeightDelta* delta = nullptr;  // merged adapters; outlives the conversion
  int threads = 1;
  bool overwrite = false;
  std::string version;  // of this program, for the metadata
};

struct PlannedTensor {
  std::string official, target;
  std::vector<std::int64_t> shape;
  std::string source_format;       // of the report; empty: computed
  std::uint64_t source_bytes = 0;  // with side tensors
  std::string reason;              // FormatChoice::reason
  std::unique_ptr<MatrixEncoder> encoder;
  std::function<Result<RowSourcePtr>()> open;
  const TensorInfo* copy = nullptr;  // these bytes of the source are the tensor: nothing to encode
  std::size_t first_output = 0;      // of the encoder's, within the layout
};

struct ConvertPlan {
  std::vector<PlannedTensor> tensors;
  std::vector<TensorDeclaration> declarations;  // of all tensors, in order
  FileMetadata metadata;                        // without the measured errors
  FileLayout layout;                            // with room for them
  std::optional<CurveTable> curve;
  std::vector<std::string> notices;
};

// Errors: usage (a format that cannot be, pruning something else than a full transformer), model (a tensor is missing).
Result<ConvertPlan> make_convert_plan(const ConvertSource& source, const ConvertOptions& options, const CancelToken* cancel);

// The layer a tensor belongs to, numbers replaced: "blocks.N.attn.qkv_proj".
std::string layer_group(std::string_view target);

// The errors of a conversion as metadata: always of the same length for the same groups.
struct GroupError {
  double mean = 0, largest = 0;  // relative L2
};
std::string error_text(const std::map<std::string, GroupError>& groups);
inline constexpr const char* kErrorKey = "tritium.errors";

// The layout with this text for kErrorKey.
Result<FileLayout> layout_with_errors(const ConvertPlan& plan, Container container, const std::string& errors);

// A file as part of a source's identity.
struct SourceFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970
  std::string header_sha256;  // of everything before the first tensor
};
Result<std::vector<SourceFile>> identify_files(const Checkpoint& checkpoint);

}  // namespace tritium
