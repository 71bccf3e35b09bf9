// PNG pictures: 8-bit RGB, marked sRGB, no date; the same pixels give the same bytes.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tritium {

// The file's content. rgb: [height, width, 3]. Error (failure): an incomplete picture, a side above 65536.
Result<std::string> encode_png(std::span<const std::uint8_t> rgb, int width, int height);

// The file appears under its name when it is complete, replacing an older one. Errors: as above, and those of AtomicFile.
Result<void> write_png(const std::filesystem::path& path, std::span<const std::uint8_t> rgb, int width, int height);

}  // namespace tritium
