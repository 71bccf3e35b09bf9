#include "server/http/url.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>

namespace tritium::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

Error usage(std::string message, std::string hint = "") { return {ErrorCode::usage, std::move(message), "", std::move(hint)}; }

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, slash);
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return false;
}

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string::npos;
}

// A quoted string at the start of `text`, which is taken off. A backslash stands before a quote or a backslash; before anything else it is
// itself, as browsers send names of files.
std::optional<std::string> take_quoted(std::string_view& text) {
  std::string out;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return out;
    }
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) ++i;
    out += text[i];
  }
  return std::nullopt;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += plus && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1, low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Result<Pairs> parse_pairs(std::string_view text, std::size_t max_pairs) {
  Pairs out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    if (out.size() >= max_pairs) return usage(fmt::format("more than {} fields", max_pairs));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decoded(pair.substr(0, equals), true);
    auto value = percent_decoded(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!name || !value) return usage("a '%' is not followed by two hexadecimal digits", "write a percent sign as %25");
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return out;
}

Result<Target> parse_target(std::string_view target, std::size_t max_pairs) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !same_text(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
    if (target.empty()) target = "/";
    break;
  }
  target = target.substr(0, target.find('#'));
  const std::size_t mark = std::min(target.find('?'), target.size());
  auto path = percent_decoded(target.substr(0, mark), false);
  if (!path || !path->starts_with('/') || has_control(*path) || has_dot_segment(*path))
    return usage("the path of the request is not valid",
                 "it begins with '/', has no '.' or '..' between slashes and no control characters");
  TRITIUM_TRY_ASSIGN(Pairs query, parse_pairs(target.substr(std::min(mark + 1, target.size())), max_pairs));
  return Target{std::move(*path), std::move(query)};
}

const std::string* FieldValue::find(std::string_view name) const {
  const auto it = std::find_if(parameters.begin(), parameters.end(), [&](const auto& pair) { return pair.first == name; });
  return it == parameters.end() ? nullptr : &it->second;
}

std::optional<FieldValue> parse_field_value(std::string_view text) {
  FieldValue out;
  const std::size_t first = std::min(text.find(';'), text.size());
  out.value = lower_case(trimmed(text.substr(0, first)));
  text.remove_prefix(first);
  while (!(text = trimmed(text)).empty()) {
    if (text.front() != ';') return std::nullopt;
    text = trimmed(text.substr(1));
    if (text.empty()) break;
    const auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_token_char) - text.begin());
    if (end == 0 || end == text.size() || text[end] != '=') return std::nullopt;
    std::string name = lower_case(text.substr(0, end));
    text.remove_prefix(end + 1);
    std::optional<std::string> value;
    if (text.starts_with('"')) {
      value = take_quoted(text);
    } else {
      const std::size_t stop = std::min(text.find(';'), text.size());
      value = std::string(trimmed(text.substr(0, stop)));
      text.remove_prefix(stop);
    }
    if (!value) return std::nullopt;
    out.parameters.emplace_back(std::move(name), std::move(*value));
  }
  return out;
}

bool list_holds(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (same_text(trimmed(list.substr(0, end)), token)) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace tritium::http
