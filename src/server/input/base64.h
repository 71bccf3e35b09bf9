// base64 (RFC 4648 §4), strictly: the standard alphabet with its padding, nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tritium::server {

// Of text of valid length; exact when the text is valid.
std::uint64_t base64_bytes(std::string_view text);

// None: not base64. Also for bits that are lost in the last character: one text stands for one content.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace tritium::server
