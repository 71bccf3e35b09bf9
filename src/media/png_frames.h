// PNG files of a clip's frames that nobody sees before it is known whether the clip is wanted.
#pragma once

#include "base/cancel.h"
#include "base/files.h"

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tritium {

// Compresses frames as they come and keeps them in one temporary file, which goes when this goes.
class PngFrames {
 public:
  // `beside`: the temporary file lies in the folder of this file, under a name like those of its AtomicFile.
  static Result<PngFrames> open(const std::filesystem::path& beside);

  // rgb: [height, width, 3]. Errors: those of encode_png, and does_not_fit when the disk is full.
  Result<void> add(std::span<const std::uint8_t> rgb, int width, int height);

  // Every frame as folder/frame_00000.png, frame_00001.png ...; the folder is created when missing. Files of earlier runs with
  // higher numbers are left alone. After an error or an interruption the frames written so far are there, each complete.
  Result<void> write_to(const std::filesystem::path& folder, const CancelToken* cancel = nullptr) const;

 private:
  explicit PngFrames(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;                  // never gets its final name
  std::vector<std::uint64_t> ends_;  // of each frame, in the file
};

}  // namespace tritium
