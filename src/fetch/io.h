// Reading, writing and flushing with errors that name the file.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace tritium::fetch {

// `code`: errno. Error code does_not_fit for a full disk.
Error io_error(const char* action, const std::filesystem::path& path, int code);

Result<void> write_all(int fd, const std::filesystem::path& path, std::string_view text);
Result<void> write_at(int fd, const std::filesystem::path& path, std::uint64_t offset, std::span<const std::uint8_t> bytes);
// Error also when the file ends before.
Result<void> read_at(int fd, const std::filesystem::path& path, std::uint64_t offset, std::span<std::uint8_t> bytes);

// Makes a rename or removal in this folder last.
void sync_folder(const std::filesystem::path& folder);

}  // namespace tritium::fetch
