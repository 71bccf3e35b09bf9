// A clip on its way to disk, frame by frame: into the MP4, past the guards, and into the optional forms. The whole of its pictures is never
// in memory.
#pragma once

#include "base/cancel.h"
#include "base/files.h"
#include "media/stereo_sound.h"
#include "pipeline/guard.h"
#include "sampler/latents.h"

#include <tritium/engine.h>
#include <memory>
#include <span>
#include <string>

namespace tritium {

// Destroyed without publish(), it leaves nothing behind. Not thread safe: one thread at a time.
class ClipWriter {
 public:
  // `reserved`: of reserve_output(). `output`, `plan` and `cancel` outlive it. Errors: those of Mp4Writer, with the video's final name.
  static Result<ClipWriter> open(AtomicFile reserved, const OutputOptions& output, const Plan& plan, StereoSound sound,
                                 const CancelToken* cancel);
  ClipWriter(ClipWriter&&) noexcept;
  ClipWriter& operator=(ClipWriter&&) = delete;
  ~ClipWriter();

  // The next of plan.frames frames, [height, width, 3]. Errors as above.
  Result<void> add(std::span<const std::uint8_t> rgb);

  // What the guards say about the clip, after the last frame.
  [[nodiscard]] GuardReport inspect() const;

  // Completes everything; the MP4 gets its final name last. A clip the guards refused is kept as rejected_name() instead and the verdict is
  // returned as the error. `metadata`: the document for the MP4 and the sidecar. Call once, last.
  Result<void> publish(const Latents& latents, const GuardReport& guard, const std::string& metadata);

 private:
  struct State;
  explicit ClipWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tritium
