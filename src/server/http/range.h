// What of a file is sent: ranges and conditions (RFC 9110 §13, §14).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tritium::http {

struct FilePart {
  int status = 200;  // 200 all of it, 206 the part, 304 the client has it already, 416 nothing of it lies in the range
  std::uint64_t first = 0, length = 0;
};

struct FileConditions {
  std::string_view range, if_range, if_none_match;  // header fields, empty when absent
};

// `etag` without quotes, may be empty. A range of another unit, of another form, or of several parts is passed over: all is sent.
FilePart choose_part(const FileConditions& conditions, std::uint64_t bytes, const std::string& etag);

// "bytes=0-99", "bytes=100-", "bytes=-5" of a file of `bytes`. None: to be passed over. A length of 0: nothing of it lies in the file.
struct RangeAnswer {
  std::uint64_t first = 0, length = 0;
};
std::optional<RangeAnswer> parse_range(std::string_view text, std::uint64_t bytes);

// Whether a list of entity tags ("\"a\", W/\"b\"", "*") names this one; weak and strong are the same here.
bool names_etag(std::string_view list, std::string_view etag);

}  // namespace tritium::http
