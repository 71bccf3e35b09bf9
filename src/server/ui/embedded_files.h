// Files that are part of the program.
#pragma once

#include <cstddef>
#include <span>

namespace tritium::server::ui {

struct EmbeddedFile {
  const char* path;  // below its folder: "assets/index-1a2b3c4d.js"
  const unsigned char* data;
  std::size_t bytes;
  const char* sha256;  // in hexadecimal digits
};

// The built page, sorted by path.
std::span<const EmbeddedFile> embedded_files();

}  // namespace tritium::server::ui
