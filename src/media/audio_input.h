// Sound from files, at the rate the file has.
#pragma once

#include "base/cancel.h"
#include "media/stereo_sound.h"

#include <tritium/result.h>

#include <filesystem>

namespace tritium {

struct AudioOptions {
  double max_seconds = 15;  // the rest is cut off, unread
  const CancelToken* cancel = nullptr;
};

// The first sound track of any sound or video file that libav reads, from its own first sample on (spec/vae.md §2.1): mono goes to both
// channels at gain 1; of more than two channels the first two are taken (front left and right in the usual layouts); integers are
// scaled so that full scale is 1, floats stay as they are, even beyond 1, but all are finite. The delay that AAC and MP3 encoders note is
// removed. The rate is that of the file, 1000..768000 Hz.
// Errors: usage when the file is missing, has no sound, is damaged or cut off within max_seconds, or its sound changes format or holds
// a value that is not finite; interrupted; does_not_fit. They name file and reason.
Result<StereoSound> load_audio(const std::filesystem::path& path, const AudioOptions& options = {});

}  // namespace tritium
