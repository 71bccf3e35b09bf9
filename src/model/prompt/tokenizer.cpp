#include "model/prompt/tokenizer.h"

#include "base/try.h"
#include "model/prompt/unicode.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <utility>

namespace tritium {
namespace {

using unicode::CharClass;

constexpr std::size_t kMaxTextBytes = 64u << 20;  // positions are 32 bits wide, and no model takes a fraction of this

// One segment as characters with their classes; the splitting rules of §1.2.2 look at nothing else.
struct Segment {
  std::u32string text;
  std::vector<CharClass> classes;

  [[nodiscard]] std::size_t size() const { return text.size(); }
  [[nodiscard]] bool is(std::size_t i, CharClass wanted) const { return i < size() && classes[i] == wanted; }
  [[nodiscard]] bool line_end(std::size_t i) const { return i < size() && (text[i] == U'\r' || text[i] == U'\n'); }
  [[nodiscard]] std::size_t run_end(std::size_t i, CharClass wanted) const {
    while (is(i, wanted)) ++i;
    return i;
  }
};

// ASCII letters as they are; capital letters and U+017F (long s) folded.
char32_t fold(char32_t c) {
  if (c >= U'A' && c <= U'Z') return c + 0x20;
  return c == 0x17F ? U's' : c;
}

// Length of 's 't 're 've 'm 'll 'd at i, 0 if there is none.
std::size_t contraction(const Segment& s, std::size_t i) {
  if (s.text[i] != U'\'' || i + 1 >= s.size()) return 0;
  const char32_t first = fold(s.text[i + 1]), second = i + 2 < s.size() ? fold(s.text[i + 2]) : 0;
  if (first == U's' || first == U't' || first == U'm' || first == U'd') return 2;
  const bool two = (first == U'r' && second == U'e') || (first == U'v' && second == U'e') || (first == U'l' && second == U'l');
  return two ? 3 : 0;
}

// End of the white-space piece at i: rules 5, 6 and 7.
std::size_t space_end(const Segment& s, std::size_t i) {
  const std::size_t end = s.run_end(i, CharClass::space);
  for (std::size_t k = end; k > i; --k)
    if (s.line_end(k - 1)) return k;
  return end == s.size() || end - i == 1 ? end : end - 1;
}

// End of the piece that starts at i; the numbers are those of the alternatives in §1.2.2.
std::size_t piece_end(const Segment& s, std::size_t i) {
  if (const std::size_t length = contraction(s, i); length > 0) return i + length;  // 1
  if (s.is(i, CharClass::letter)) return s.run_end(i, CharClass::letter);           // 2 without prefix
  if (!s.line_end(i) && !s.is(i, CharClass::number) && s.is(i + 1, CharClass::letter)) return s.run_end(i + 1, CharClass::letter);  // 2
  if (s.is(i, CharClass::number)) return i + 1;                                                                                     // 3
  if (const std::size_t first = i + (s.text[i] == U' ' ? 1 : 0); s.is(first, CharClass::other)) {                                   // 4
    std::size_t end = s.run_end(first, CharClass::other);
    while (s.line_end(end)) ++end;
    return end;
  }
  return space_end(s, i);
}

constexpr std::uint32_t kEnd = 0xFFFFFFFFu;

}  // namespace

// Buffers that keep their memory from piece to piece.
struct Tokenizer::Scratch {
  struct Node {  // a token of the piece, in a doubly linked list
    std::int32_t id;
    std::uint32_t previous, next;
  };
  std::vector<Node> nodes;
  std::vector<std::uint64_t> heap;  // candidates: rank << 32 | index of the left node, smallest on top
  std::string bytes;
};

Tokenizer::Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  for (const AddedToken& token : vocabulary_.added) starts_added_[static_cast<unsigned char>(token.content.front())] = true;
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& folder) {
  TRITIUM_TRY_ASSIGN(Vocabulary vocabulary, Vocabulary::load(folder));
  return Tokenizer(std::move(vocabulary));
}

const AddedToken* Tokenizer::added_at(std::string_view text, std::size_t offset) const {
  if (!starts_added_[static_cast<unsigned char>(text[offset])]) return nullptr;
  const std::string_view rest = text.substr(offset);
  for (const AddedToken& token : vocabulary_.added)
    if (rest.starts_with(token.content)) return &token;  // the longest, by their order
  return nullptr;
}

Result<std::vector<std::int32_t>> Tokenizer::encode(std::string_view text) const {
  if (text.size() > kMaxTextBytes)
    return Error{ErrorCode::usage, fmt::format("the text has {} bytes, more than the limit of {}", text.size(), kMaxTextBytes), "",
                 "shorten it"};
  if (const auto at = unicode::invalid_utf8_at(text)) {
    const unsigned byte = static_cast<unsigned char>(text[*at]);
    return Error{ErrorCode::usage, fmt::format("the text is not valid UTF-8: byte 0x{:02X} at offset {}", byte, *at), "",
                 "encode it as UTF-8"};
  }
  std::vector<std::int32_t> out;
  Scratch scratch;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const AddedToken* token = added_at(text, i);
    if (token == nullptr) {
      ++i;
      continue;
    }
    encode_segment(text.substr(begin, i - begin), scratch, out);
    out.push_back(token->id);
    begin = i += token->content.size();
  }
  encode_segment(text.substr(begin), scratch, out);
  return out;
}

void Tokenizer::encode_segment(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (text.empty()) return;
  Segment segment;
  segment.text = unicode::nfc(unicode::decode_utf8(text));
  segment.classes.resize(segment.size());
  std::transform(segment.text.begin(), segment.text.end(), segment.classes.begin(), unicode::char_class);
  for (std::size_t i = 0; i < segment.size();) {
    const std::size_t end = piece_end(segment, i);
    scratch.bytes.clear();
    for (; i < end; ++i) unicode::append_utf8(scratch.bytes, segment.text[i]);
    encode_piece(scratch.bytes, scratch, out);
  }
}

// Repeatedly joins the adjacent pair of lowest rank, leftmost first (§1.2.4). A candidate in the heap may be out of date: it counts
// only if the two nodes still are the pair of its rank.
void Tokenizer::encode_piece(std::string_view bytes, Scratch& scratch, std::vector<std::int32_t>& out) const {
  auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  const auto n = static_cast<std::uint32_t>(bytes.size());
  const auto candidate = [&](std::uint32_t left) -> std::optional<std::uint64_t> {
    const std::uint32_t right = nodes[left].next;
    const std::int32_t rank = right == kEnd ? MergeTable::kNone : vocabulary_.ranks.rank(nodes[left].id, nodes[right].id);
    if (rank == MergeTable::kNone) return std::nullopt;
    return static_cast<std::uint64_t>(rank) << 32 | left;
  };
  const auto push = [&](std::uint32_t left) {
    if (const auto entry = candidate(left)) {
      heap.push_back(*entry);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };

  nodes.clear();
  heap.clear();
  for (std::uint32_t i = 0; i < n; ++i)
    nodes.push_back({vocabulary_.byte_ids[static_cast<unsigned char>(bytes[i])], i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1});
  for (std::uint32_t i = 0; i < n; ++i)
    if (const auto entry = candidate(i)) heap.push_back(*entry);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const std::uint64_t best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto left = static_cast<std::uint32_t>(best & 0xFFFFFFFFu);
    const Merge& merge = vocabulary_.merges[static_cast<std::size_t>(best >> 32)];
    const std::uint32_t right = nodes[left].next;
    if (nodes[left].id != merge.left || right == kEnd || nodes[right].id != merge.right) continue;
    nodes[left].id = merge.product;
    nodes[left].next = nodes[right].next;
    if (nodes[right].next != kEnd) nodes[nodes[right].next].previous = left;
    nodes[right].id = -1;  // no merge has this part
    push(left);
    if (nodes[left].previous != kEnd) push(nodes[left].previous);
  }
  for (std::uint32_t i = 0; i != kEnd; i = nodes[i].next) out.push_back(nodes[i].id);
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view added) const {
  for (const AddedToken& token : vocabulary_.added)
    if (token.content == added) return token.id;
  return std::nullopt;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) {
    const bool known = id >= 0 && id < vocab_size() && !vocabulary_.bytes[static_cast<std::size_t>(id)].empty();
    out += known ? vocabulary_.bytes[static_cast<std::size_t>(id)] : "\xEF\xBF\xBD";
  }
  return out;
}

}  // namespace tritium
