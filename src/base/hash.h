// SHA-256 of memory and files.
#pragma once

#include "base/cancel.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace tritium {

// Lower-case hexadecimal, 64 characters.
std::string sha256_hex(std::string_view bytes);
Result<std::string> sha256_file(const std::filesystem::path& path, const CancelToken* cancel = nullptr);

}  // namespace tritium
