// Writes a part of a model in another format: streaming, with bounded memory, resumable, with the error of every tensor measured.
#pragma once

#include "weights/convert/plan.h"

#include <tritium/cancel.h>

#include <filesystem>

namespace tritium {

// Memory for slices of rows, over all threads. Beside it stand the side tensors of the tensors at hand, a few megabytes.
inline constexpr std::uint64_t kConvertBufferBytes = 256u << 20;

struct ConvertProgress {
  std::uint64_t done = 0, total = 0;  // bytes of the target
  std::string tensor;                 // being written
};

struct ConvertHooks {
  std::function<void(const ConvertProgress&)> progress;  // from the calling thread, once per tensor and now and then within one
  std::function<void(const std::string&)> notice;        // what the user should know, a sentence each
};

struct ConvertedTensor {
  std::string official, target, source_format, format, reason;
  std::uint64_t bytes_before = 0, bytes_after = 0;  // with side tensors
  double error = 0;                                 // ‖decoded − source‖ / ‖source‖, 0 for copies
  double squared_error = 0, squared_value = 0;      // summed over the tensor
};

struct ConvertReport {
  std::filesystem::path target;
  std::uint64_t bytes = 0;  // of the file
  std::vector<ConvertedTensor> tensors;
  std::optional<CurveTable> curve;                                 // of a pruned model
  std::size_t resumed = 0;                                         // tensors that an earlier run had written
  [[nodiscard]] std::map<std::string, GroupError> groups() const;  // of what was encoded
};

// Errors: make_convert_plan's and PartFile's; model for a source that cannot be read or has values that are not finite; interrupted. After
// an error what has been written stays beside the target, and the same call continues there.
Result<ConvertReport> convert_part(const ConvertSource& source, const std::filesystem::path& target, const ConvertOptions& options,
                                   const ConvertHooks& hooks = {}, const CancelToken* cancel = nullptr);

}  // namespace tritium
