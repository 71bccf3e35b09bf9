// Unicode facts for the tokenizer, at version 15.1 whatever version the installed utf8proc has (spec/text.md §1.2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tritium::unicode {

// letter: general category L*; number: Nd, Nl, No; space: the property White_Space. Marks are `other`.
enum class CharClass : std::uint8_t { other, letter, number, space };
CharClass char_class(char32_t c);

// Offset of the first byte that is not part of well-formed UTF-8; none if all of it is. Refused: stray and missing continuation
// bytes, overlong forms, surrogates, values above U+10FFFF. NUL is an ordinary character.
std::optional<std::size_t> invalid_utf8_at(std::string_view text);

// Precondition: no invalid UTF-8.
std::u32string decode_utf8(std::string_view text);
// Precondition: `c` is a Unicode scalar value.
void append_utf8(std::string& out, char32_t c);

// Normalization form C, in O(n log n) for any input. Precondition: scalar values, or valid UTF-8.
std::u32string nfc(std::u32string text);
std::string nfc(std::string_view text);

}  // namespace tritium::unicode
