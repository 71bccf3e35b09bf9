#include "server/http/response.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <ctime>
#include <random>

namespace tritium::http {
namespace {

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }, ' ');
  return out;
}

}  // namespace

const char* reason_of(int status) {
  static constexpr std::pair<int, const char*> kReasons[] = {{100, "Continue"},
                                                             {101, "Switching Protocols"},
                                                             {200, "OK"},
                                                             {201, "Created"},
                                                             {202, "Accepted"},
                                                             {204, "No Content"},
                                                             {206, "Partial Content"},
                                                             {301, "Moved Permanently"},
                                                             {302, "Found"},
                                                             {303, "See Other"},
                                                             {304, "Not Modified"},
                                                             {307, "Temporary Redirect"},
                                                             {308, "Permanent Redirect"},
                                                             {400, "Bad Request"},
                                                             {401, "Unauthorized"},
                                                             {403, "Forbidden"},
                                                             {404, "Not Found"},
                                                             {405, "Method Not Allowed"},
                                                             {406, "Not Acceptable"},
                                                             {408, "Request Timeout"},
                                                             {409, "Conflict"},
                                                             {410, "Gone"},
                                                             {411, "Length Required"},
                                                             {412, "Precondition Failed"},
                                                             {413, "Content Too Large"},
                                                             {414, "URI Too Long"},
                                                             {415, "Unsupported Media Type"},
                                                             {416, "Range Not Satisfiable"},
                                                             {417, "Expectation Failed"},
                                                             {421, "Misdirected Request"},
                                                             {422, "Unprocessable Content"},
                                                             {426, "Upgrade Required"},
                                                             {429, "Too Many Requests"},
                                                             {431, "Request Header Fields Too Large"},
                                                             {500, "Internal Server Error"},
                                                             {501, "Not Implemented"},
                                                             {502, "Bad Gateway"},
                                                             {503, "Service Unavailable"},
                                                             {504, "Gateway Timeout"},
                                                             {505, "HTTP Version Not Supported"},
                                                             {507, "Insufficient Storage"}};
  for (const auto& [code, reason] : kReasons)
    if (code == status) return reason;
  return "Status";
}

std::string head_text(int status, const Fields& fields) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_of(status));
  for (const auto& [name, value] : fields) out += fmt::format("{}: {}\r\n", one_line(name), one_line(value));
  return out + "\r\n";
}

std::string http_date(std::int64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02d} {} {} {:02d}:{:02d}:{:02d} GMT", kDays[parts.tm_wday % 7], parts.tm_mday, kMonths[parts.tm_mon % 12],
                     parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string attachment(const std::string& name) {
  std::string simple, encoded;
  for (const char c : name) {
    simple += is_plain(c) || c == ' ' ? c : '_';
    encoded += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return fmt::format("attachment; filename=\"{}\"; filename*=UTF-8''{}", simple, encoded);
}

bool valid_request_id(std::string_view id) { return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), is_plain); }

std::string new_request_id() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("req_{:016x}{:08x}", generator(), static_cast<std::uint32_t>(generator()));
}

}  // namespace tritium::http
