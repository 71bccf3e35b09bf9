// Any bytes as the header fields about a file: what is sent lies in the file. And as addresses and values of fields: decoding never fails
// badly.
#include "require.h"
#include "server/http/range.h"
#include "server/http/url.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace tritium::http;

void check_part(std::string_view range, std::string_view if_range, std::string_view tags, std::uint64_t bytes) {
  const FilePart part = choose_part({range, if_range, tags}, bytes, "v1");
  FUZZ_REQUIRE(part.status == 200 || part.status == 206 || part.status == 304 || part.status == 416);
  FUZZ_REQUIRE(part.first <= bytes && part.length <= bytes - part.first);
  if (part.status == 200) FUZZ_REQUIRE(part.first == 0 && part.length == bytes);
  if (part.status == 206) FUZZ_REQUIRE(part.length > 0);
  if (part.status == 304) FUZZ_REQUIRE(tags.find("v1") != std::string_view::npos || tags.find('*') != std::string_view::npos);
  if (part.status == 206 || part.status == 416) FUZZ_REQUIRE(if_range.empty() || if_range == "\"v1\"");
}

}  // namespace

// Three fields, divided by line ends.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(text.find('\n'), size), second = std::min(text.find('\n', std::min(first + 1, size)), size);
  const std::string_view range = text.substr(0, first),
                         if_range = text.substr(std::min(first + 1, second), second - std::min(first + 1, second)),
                         tags = text.substr(std::min(second + 1, size));
  for (const std::uint64_t bytes : {std::uint64_t(0), std::uint64_t(1), std::uint64_t(1000), ~std::uint64_t(0)}) {
    check_part(range, if_range, tags, bytes);
    check_part(range, "", "", bytes);
  }
  if (const auto target = parse_target(text, 10); target.ok()) {
    FUZZ_REQUIRE(target->path.starts_with('/') && target->query.size() <= 10);
    FUZZ_REQUIRE(target->path.find('\0') == std::string::npos && (target->path + "/").find("/../") == std::string::npos);
  }
  if (const auto value = parse_field_value(text)) FUZZ_REQUIRE(value->value.find(';') == std::string::npos);
  list_holds(text, "chunked");
  return 0;
}
