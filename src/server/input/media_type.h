// The suffix under which media is kept, by what it is rather than by what it is called.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tritium::server {

constexpr std::size_t kSniffBytes = 32;

// ".png", ".mp4", ...: by the first bytes; where those say nothing by the content type ("image/png; x=y"); ".bin" otherwise.
std::string media_suffix(std::string_view first_bytes, std::string_view content_type);

}  // namespace tritium::server
