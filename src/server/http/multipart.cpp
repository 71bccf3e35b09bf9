#include "server/http/multipart.h"

#include "base/try.h"
#include "server/http/url.h"

#include <algorithm>

namespace tritium::http {
namespace {

constexpr std::size_t kMaxHeaderBytes = 16 << 10;
constexpr std::size_t kMaxPadding = 256;  // spaces behind a boundary

Error malformed(std::string what) {
  return {ErrorCode::usage, "the multipart form is malformed: " + what, "",
          "let a library write the form, with the boundary of its header"};
}

// A header line of a part. Others than these two have no meaning in forms.
Result<void> read_line(std::string_view line, MultipartPart& part, bool& named) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return malformed("a header line of a part has no name");
  const std::string_view name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
  if (same_text(name, "content-type")) part.content_type = value;
  if (same_text(name, "content-transfer-encoding") && !same_text(value, "binary") && !same_text(value, "8bit") && !same_text(value, "7bit"))
    return malformed("a part has a transfer encoding; only binary, 8bit and 7bit are known");
  if (!same_text(name, "content-disposition")) return {};
  const auto disposition = parse_field_value(value);
  if (!disposition || disposition->value != "form-data") return malformed("the disposition of a part is not form-data");
  const std::string* field = disposition->find("name");
  if (field == nullptr || named) return malformed("a part has no name, or more than one");
  named = true;
  part.name = *field;
  if (const std::string* file = disposition->find("filename")) {
    part.is_file = true;
    part.file_name = *file;
  }
  if (const std::string* encoded = disposition->find("filename*")) {  // UTF-8''name%20of%20file
    part.is_file = true;
    const std::size_t quote = encoded->rfind('\'');
    if (auto decoded = percent_decoded(quote == std::string::npos ? *encoded : encoded->substr(quote + 1), false))
      part.file_name = *decoded;
  }
  return {};
}

// `head`: lines, each with its end.
Result<MultipartPart> read_part(std::string_view head) {
  MultipartPart out;
  bool named = false;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    TRITIUM_TRY(read_line(head.substr(0, end), out, named));
    head.remove_prefix(end + 2);
  }
  if (!named) return malformed("a part has no Content-Disposition");
  return out;
}

}  // namespace

bool valid_boundary(std::string_view boundary) {
  if (boundary.empty() || boundary.size() > 70 || boundary.back() == ' ') return false;
  return std::all_of(boundary.begin(), boundary.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
  });
}

// A line's end in front of everything lets the first boundary look like the others.
MultipartParser::MultipartParser(const std::string& boundary, MultipartEvents events)
    : delimiter_("\r\n--" + boundary), events_(std::move(events)), buffer_("\r\n") {}

Result<void> MultipartParser::write(std::string_view bytes) {
  buffer_.append(bytes);
  while (true) {
    TRITIUM_TRY_ASSIGN(const bool more, step());
    if (!more) break;
  }
  buffer_.erase(0, used_);
  used_ = 0;
  return {};
}

Result<void> MultipartParser::finish() {
  if (place_ != Place::after) return malformed("it ends before its closing boundary");
  return {};
}

Result<bool> MultipartParser::step() {
  switch (place_) {
    case Place::before:
      return find_boundary(false);
    case Place::after_boundary:
      return read_boundary_line();
    case Place::headers:
      return read_headers();
    case Place::content:
      return find_boundary(true);
    case Place::after:
      used_ = buffer_.size();  // an epilogue means nothing
      return false;
  }
  return false;
}

Result<bool> MultipartParser::find_boundary(bool is_content) {
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  const std::size_t at = rest.find(delimiter_);
  const bool found = at != std::string_view::npos;
  const std::size_t safe = found ? at : rest.size() - std::min(rest.size(), delimiter_.size() - 1);
  if (is_content && safe > 0) TRITIUM_TRY(events_.data(rest.substr(0, safe)));
  used_ += safe + (found ? delimiter_.size() : 0);
  if (!found) return false;
  if (is_content) TRITIUM_TRY(events_.end());
  place_ = Place::after_boundary;
  return true;
}

// "--" ends the form; otherwise spaces and the end of the line.
Result<bool> MultipartParser::read_boundary_line() {
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < 2) return false;
  if (rest.starts_with("--")) {
    place_ = Place::after;
    return true;
  }
  const std::size_t end = rest.find("\r\n");
  const std::string_view padding = rest.substr(0, end);
  const std::size_t other = padding.find_first_not_of(" \t");
  const bool is_start_of_end = end == std::string_view::npos && other == padding.size() - 1 && padding.back() == '\r';
  if ((other != std::string_view::npos && !is_start_of_end) || padding.size() > kMaxPadding)
    return malformed("something follows a boundary in its line");
  if (end == std::string_view::npos) return false;
  used_ += end + 2;
  place_ = Place::headers;
  return true;
}

Result<bool> MultipartParser::read_headers() {
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  std::size_t end = rest.starts_with("\r\n") ? 0 : rest.find("\r\n\r\n");
  if (std::min(end, rest.size() - std::min<std::size_t>(rest.size(), 3)) > kMaxHeaderBytes)
    return malformed("the headers of a part are longer than 16 KiB");
  if (end == std::string_view::npos) return false;
  if (end > 0) end += 2;
  TRITIUM_TRY_ASSIGN(const MultipartPart part, read_part(rest.substr(0, end)));
  TRITIUM_TRY(events_.begin(part));
  used_ += end + 2;
  place_ = Place::content;
  return true;
}

}  // namespace tritium::http
