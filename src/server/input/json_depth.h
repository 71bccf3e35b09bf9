// A guard before documents of strangers are parsed: code that walks a document calls itself once per level.
#pragma once

#include <string_view>

namespace tritium::server {

// Whether objects and arrays lie more than `levels` deep in each other. Says nothing about whether it is JSON at all.
inline bool nested_deeper_than(std::string_view json, int levels) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > levels) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace tritium::server
