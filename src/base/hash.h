// SHA-256 of memory and files.
#pragma once

#include "base/cancel.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tritium {

// Lower-case hexadecimal, 64 characters.
std::string sha256_hex(std::string_view bytes);
// MD5, 32 characters: names files that others published, proves nothing.
std::string md5_hex(std::string_view bytes);
Result<std::string> sha256_file(const std::filesystem::path& path, const CancelToken* cancel = nullptr);

// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void update(std::span<const std::uint8_t> bytes);
  // The hash of everything since the beginning or the last call; the next update() begins anew.
  std::string finish_hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tritium
