#include "model/prompt/unicode.h"

#include <utf8proc.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace tritium::unicode {
namespace {

struct Range {
  char32_t first, last;
};

// CJK extension I, new in 15.1: the only letters or numbers that tables of version 15.0 lack.
constexpr Range kExtensionI{0x2EBF0, 0x2EE5D};

// Letters, numbers and marks that Unicode 16.0 and 17.0 added, together with unassigned neighbours. In 15.1 all of these are
// unassigned: they have no class, and they neither decompose, compose nor reorder. (15.1 and 17.0 agree on everything else here.)
constexpr std::array kNewerThan15_1 = {
    Range{0x88F, 0x88F},     Range{0x897, 0x897},     Range{0xC5C, 0xC5C},     Range{0xCDC, 0xCDC},     Range{0x1ACF, 0x1AEB},
    Range{0x1C89, 0x1C8A},   Range{0xA7CB, 0xA7CF},   Range{0xA7D2, 0xA7D2},   Range{0xA7D4, 0xA7D4},   Range{0xA7DA, 0xA7F1},
    Range{0x105C0, 0x105F3}, Range{0x10940, 0x10959}, Range{0x10D40, 0x10D85}, Range{0x10EC2, 0x10EFC}, Range{0x11380, 0x113E2},
    Range{0x116D0, 0x116E3}, Range{0x11B60, 0x11BF9}, Range{0x11DB0, 0x11DE9}, Range{0x11F5A, 0x11F5A}, Range{0x13460, 0x143FA},
    Range{0x16100, 0x16139}, Range{0x16D40, 0x16D79}, Range{0x16EA0, 0x16ED3}, Range{0x16FF2, 0x16FF6}, Range{0x187F8, 0x187FF},
    Range{0x18CFF, 0x18CFF}, Range{0x18D09, 0x18DF2}, Range{0x1CCF0, 0x1CCF9}, Range{0x1E5D0, 0x1E6FF}, Range{0x2B73A, 0x2B73F},
    Range{0x2CEA2, 0x2CEAD}, Range{0x323B0, 0x33479},
};

static_assert(std::is_sorted(kNewerThan15_1.begin(), kNewerThan15_1.end(),
                             [](const Range& a, const Range& b) { return a.last < b.first; }));

bool newer_than_15_1(char32_t c) {
  if (c < kNewerThan15_1.front().first) return false;
  const auto after =
      std::upper_bound(kNewerThan15_1.begin(), kNewerThan15_1.end(), c, [](char32_t v, const Range& r) { return v < r.first; });
  return c <= std::prev(after)->last;
}

// Property White_Space (PropList). Category Z and the python or ICU notions of white space differ from it.
bool white_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || c == 0x20;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// Everything below U+0300 is its own normal form and combines with nothing before it.
constexpr char32_t kFirstCombining = 0x300;
constexpr auto kNfc = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Appends the normal form of `text`. The library's own driver orders marks by repeated exchange, quadratic in the length of a run
// of marks; here only its tables and its linear composition pass are used.
void append_normalized(std::u32string& out, std::u32string_view text) {
  std::vector<utf8proc_int32_t> buffer;
  buffer.reserve(text.size() + text.size() / 4);
  for (const char32_t c : text) {
    std::array<utf8proc_int32_t, 32> parts{};  // a canonical decomposition has at most 4 characters
    int unused = 0;
    const auto value = static_cast<utf8proc_int32_t>(c);
    const utf8proc_ssize_t n = utf8proc_decompose_char(value, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), kNfc, &unused);
    if (n > 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()))
      buffer.insert(buffer.end(), parts.begin(), parts.begin() + n);
    else
      buffer.push_back(value);
  }
  for (auto from = buffer.begin(); from != buffer.end();) {
    if (combining_class(*from) == 0) {
      ++from;
      continue;
    }
    const auto to = std::find_if(from, buffer.end(), [](utf8proc_int32_t c) { return combining_class(c) == 0; });
    std::stable_sort(from, to, [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
    from = to;
  }
  const utf8proc_ssize_t n = utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()), kNfc);
  if (n >= 0) buffer.resize(static_cast<std::size_t>(n));
  out.append(buffer.begin(), buffer.end());
}

// Length of the well-formed sequence at the front of `text`, 0 if there is none (Unicode 15.1, table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

CharClass char_class(char32_t c) {
  if (white_space(c)) return CharClass::space;
  if (c >= kExtensionI.first && c <= kExtensionI.last) return CharClass::letter;
  if (newer_than_15_1(c)) return CharClass::other;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    default:
      return CharClass::other;
  }
}

std::optional<std::size_t> invalid_utf8_at(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(sequence_length(text.substr(i)), 1);
    char32_t c = static_cast<unsigned char>(text[i]);
    if (length > 1) c &= 0x7Fu >> length;
    for (std::size_t k = 1; k < length; ++k) c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    out.push_back(c);
    i += length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return push(c);
  if (c < 0x800) {
    push(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      push(0xE0 | (c >> 12));
    } else {
      push(0xF0 | (c >> 18));
      push(0x80 | ((c >> 12) & 0x3F));
    }
    push(0x80 | ((c >> 6) & 0x3F));
  }
  push(0x80 | (c & 0x3F));
}

std::u32string nfc(std::u32string text) {
  if (std::all_of(text.begin(), text.end(), [](char32_t c) { return c < kFirstCombining; })) return text;
  std::u32string out;
  out.reserve(text.size());
  const std::u32string_view all = text;
  for (std::size_t begin = 0; begin <= all.size();) {
    std::size_t end = begin;
    while (end < all.size() && !newer_than_15_1(all[end])) ++end;
    append_normalized(out, all.substr(begin, end - begin));
    if (end < all.size()) out.push_back(all[end]);  // unassigned in 15.1: nothing combines across it
    begin = end + 1;
  }
  return out;
}

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : nfc(decode_utf8(text))) append_utf8(out, c);
  return out;
}

}  // namespace tritium::unicode
