// Base64 as in RFC 4648 §4: with padding, without line ends.
#pragma once

#include <string>
#include <string_view>

namespace tritium {

std::string base64_encode(std::string_view bytes);

}  // namespace tritium
