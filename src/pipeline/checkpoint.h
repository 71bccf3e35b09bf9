// The state of a run in a folder, so that a run that was interrupted goes on with the same bits in its result.
//
//   conditioning.safetensors   what the transformer is given besides noise, once it is encoded
//   latents.safetensors        both streams after some steps, how many, and what the acceleration remembers
//
// Each file carries the key of its run and a checksum, and gets its name when it is complete. The last latents replace those before.
#pragma once

#include "pipeline/conditioning.h"
#include "pipeline/job.h"
#include "pipeline/stages.h"
#include "weights/safetensors_writer.h"

#include <filesystem>
#include <memory>
#include <optional>

namespace tritium {

// A hash of everything that decides the bits of the latents: the plan's values, contents of the request's files, weights, adapters,
// arithmetic and version of the program. `weights`: weight_fingerprints(). Error (usage): a file of the request cannot be read any more.
Result<std::string> run_key(const PreparedRequest& job, const Request& request, const std::string& weights, const std::string& compute,
                            const CancelToken* cancel);

class RunCheckpoint {
 public:
  RunCheckpoint() = default;  // keeps nothing
  // `every`: steps between two states at the least; 0: only the last is kept.
  RunCheckpoint(std::filesystem::path folder, std::string key, int every);

  [[nodiscard]] bool on() const { return !folder_.empty(); }

  // What an earlier run of the same key left; none otherwise, with a warning when there is something that cannot be used.
  std::optional<DenoiseState> latents(const Plan& plan);
  std::optional<Conditioning> conditioning(const Plan& plan);

  // Written on a thread of its own: the run does not wait for the disk, but the destructor does. While one is being written, only the last
  // of the others is kept for afterwards. A state that cannot be written costs a later run more work and this one nothing; the first
  // failure becomes a warning.
  void keep(const Conditioning& conditioning);
  // Only if one is due, and if a run can be taken up there.
  void keep(const Plan& plan, const StepDone& done);

  // Waits for what is being written.
  [[nodiscard]] const std::vector<std::string>& warnings();

 private:
  struct File;
  struct Content;
  struct Writer;
  std::optional<File> read(const char* name);

  std::filesystem::path folder_;
  std::string key_;
  int every_ = 0, last_ = 0;  // steps: between states, and of the last one
  std::vector<std::string> warnings_;
  std::shared_ptr<Writer> writer_;
};

}  // namespace tritium
