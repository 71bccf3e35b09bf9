// multipart/form-data (RFC 7578) in pieces of any size, nothing of a part's content kept back but what may be the start of a boundary.
#pragma once

#include <tritium/result.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tritium::http {

struct MultipartPart {
  std::string name;
  bool is_file = false;   // it has a file name, perhaps an empty one
  std::string file_name;  // as the client calls it
  std::string content_type;
};

struct MultipartEvents {
  std::function<Result<void>(const MultipartPart&)> begin;
  std::function<Result<void>(std::string_view)> data;  // never empty
  std::function<Result<void>()> end;
};

class MultipartParser {
 public:
  // `boundary`: of the content type, see valid_boundary().
  MultipartParser(const std::string& boundary, MultipartEvents events);

  // Errors: usage (not of the form, headers of a part above 16 KiB), and those of the events. Nothing may be written after an error.
  Result<void> write(std::string_view bytes);
  // Error: usage, the end is missing.
  Result<void> finish();

 private:
  enum class Place { before, after_boundary, headers, content, after };
  Result<bool> step();  // whether more may be done with what is there
  Result<bool> find_boundary(bool is_content);
  Result<bool> read_boundary_line();
  Result<bool> read_headers();

  std::string delimiter_;  // "\r\n--boundary"
  MultipartEvents events_;
  Place place_ = Place::before;
  std::string buffer_;
  std::size_t used_ = 0;  // of buffer_
};

// 1 to 70 characters that RFC 2046 allows.
bool valid_boundary(std::string_view boundary);

}  // namespace tritium::http
