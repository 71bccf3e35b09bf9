// Any bytes as a multipart form, in pieces of any size: refused with a reason, or the same fields however it is cut.
#include "require.h"
#include "server/http/multipart.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using namespace tritium;
using namespace tritium::http;

struct Outcome {
  bool ok = false;
  std::string fields;  // of the names, files and contents that were told; up to the error only if there was none
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome parse(std::string_view text, std::size_t piece, std::size_t step) {
  Outcome out;
  bool open = false;
  std::size_t content = 0;
  MultipartParser parser("b", {[&](const MultipartPart& part) -> Result<void> {
                                 FUZZ_REQUIRE(!open);
                                 open = true;
                                 out.fields +=
                                     "\n[" + part.name + "|" + part.file_name + "|" + part.content_type + (part.is_file ? "|file]" : "]");
                                 return {};
                               },
                               [&](std::string_view bytes) -> Result<void> {
                                 FUZZ_REQUIRE(open && !bytes.empty());
                                 content += bytes.size();
                                 out.fields += bytes;
                                 return {};
                               },
                               [&]() -> Result<void> {
                                 FUZZ_REQUIRE(open);
                                 open = false;
                                 return {};
                               }});
  Result<void> result;
  while (!text.empty() && result.ok()) {
    const std::size_t count = std::min(piece, text.size());
    result = parser.write(text.substr(0, count));
    text.remove_prefix(count);
    piece = piece % 97 + step;
  }
  if (result.ok()) result = parser.finish();
  FUZZ_REQUIRE(result.ok() || (result.error().code == ErrorCode::usage && !result.error().message.empty()));
  FUZZ_REQUIRE(!result.ok() || !open);
  out.ok = result.ok();
  if (!out.ok) out.fields.clear();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Outcome whole = parse(text, std::max<std::size_t>(size, 1), 1);
  FUZZ_REQUIRE(whole == parse(text, 1, 1));
  FUZZ_REQUIRE(whole == parse(text, 3, 1 + size % 7));
  return 0;
}
