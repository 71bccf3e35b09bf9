// Names of graphs as reports group them.
#pragma once

#include <cctype>
#include <string>

namespace tritium {

// Numbers as '#', so that the same graph of every block counts as one: "dit.step3.block17" is "dit.step#.block#".
inline std::string without_numbers(const std::string& scope) {
  std::string out;
  for (const char c : scope) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit || out.empty() || out.back() != '#') out += digit ? '#' : c;
  }
  return out;
}

}  // namespace tritium
