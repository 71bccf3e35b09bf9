// Results on disk: their names, the place that is reserved for them, and the document about their making (clip_writer.h writes them).
#pragma once

#include "base/files.h"
#include "pipeline/guard.h"
#include "pipeline/model_info.h"

#include <tritium/engine.h>
#include <optional>

namespace tritium {

// "<video>.json"
std::filesystem::path sidecar_of(const std::filesystem::path& video);
// "name.rejected.mp4" for "name.mp4"
std::filesystem::path rejected_name(const std::filesystem::path& video);

// Reserves the target before anything is computed, so that an unwritable folder or a nearly full disk is found at once.
// Errors: failure naming the path, does_not_fit naming need and have.
Result<AtomicFile> reserve_output(const OutputOptions& output, const Plan& plan);

// The document stored in the MP4 and in the sidecar: request, plan, versions, weight hashes, timings, measurements of the guards.
struct MetadataInputs {
  const Request& request;
  const Plan& plan;
  const ModelInfo& model;
  const std::string& weights_json;  // weight_fingerprints()
  const std::vector<StageTiming>& timings;
  const GuardReport& guard;
  int threads = 0;
};
std::string metadata_json(const MetadataInputs& inputs);

// JSON array of {file, bytes, sha256}: of the whole file up to 64 MiB, of its header above ("header_sha256").
Result<std::string> weight_fingerprints(const ModelInfo& model, const CancelToken* cancel);

}  // namespace tritium
