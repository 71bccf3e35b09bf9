// PNG pictures: 8-bit RGB, marked sRGB, no date; the same pixels give the same bytes.
#pragma once

#include "base/cancel.h"
#include "media/clip.h"

#include <tritium/result.h>

#include <filesystem>
#include <span>

namespace tritium {

// rgb: [height, width, 3]. The file appears under its name when it is complete, replacing an older one.
Result<void> write_png(const std::filesystem::path& path, std::span<const std::uint8_t> rgb, int width, int height);

// Every frame as folder/frame_00000.png, frame_00001.png ...; the folder is created when missing. Files of earlier runs with
// higher numbers are left alone. After an error or an interruption the frames written so far are there, each complete.
Result<void> write_frames(const std::filesystem::path& folder, const Clip& clip, const CancelToken* cancel = nullptr);

}  // namespace tritium
