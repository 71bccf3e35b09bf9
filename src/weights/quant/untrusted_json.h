// JSON out of weight files: markers of layers and header metadata.
#pragma once

#include <tritium/result.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tritium {

// Parses `text`. Error (code model): longer than `limit` bytes, not JSON, nested deeper than 16, or a key twice in one object.
Result<nlohmann::json> parse_untrusted_json(std::string_view text, std::size_t limit);

}  // namespace tritium
