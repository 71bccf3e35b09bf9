#include "model/prompt/vocabulary.h"

#include "base/files.h"
#include "base/try.h"
#include "model/prompt/unicode.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMaxId = 1u << 24;  // far above any real vocabulary; bounds what a damaged file can make us allocate

Error bad(const fs::path& file, const std::string& what, std::string hint = "download the tokenizer files again") {
  return Error{ErrorCode::model, "'" + file.string() + "': " + what, "", std::move(hint)};
}

Result<std::string> read_text(const fs::path& file) {
  auto text = read_file(file);
  if (!text.ok())
    return Error{ErrorCode::model, text.error().message, "", "the tokenizer folder needs vocab.json, merges.txt and tokenizer_config.json"};
  if (text->starts_with("version https://git-lfs"))
    return bad(file, "it is a Git LFS pointer, not the file itself", "run 'git lfs pull' in that repository");
  if (const auto at = unicode::invalid_utf8_at(*text)) return bad(file, fmt::format("it is not valid UTF-8 at byte {}", *at));
  return std::move(text).value();
}

// The byte alphabet: printable bytes stand for themselves, the others take the characters from U+0100 upward in byte order (§1.2.3).
struct Alphabet {
  std::array<std::string, 256> symbol;        // UTF-8
  std::array<std::int16_t, 0x200> byte_of{};  // by code point; -1: not a symbol

  Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (std::size_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      unicode::append_utf8(symbol[b], c);
      byte_of[c] = static_cast<std::int16_t>(b);
    }
  }

  // The bytes that a string of symbols stands for; none if a character is no symbol.
  [[nodiscard]] std::optional<std::string> bytes(std::string_view symbols) const {
    std::string out;
    for (std::size_t i = 0; i < symbols.size();) {
      char32_t c = static_cast<unsigned char>(symbols[i++]);
      if (c >= 0x80) {
        if (c >= 0xE0 || i >= symbols.size()) return std::nullopt;  // beyond U+07FF, or the input was not UTF-8
        c = ((c & 0x1Fu) << 6) | (static_cast<unsigned char>(symbols[i++]) & 0x3Fu);
      }
      if (c >= byte_of.size() || byte_of[c] < 0) return std::nullopt;
      out.push_back(static_cast<char>(byte_of[c]));
    }
    return out;
  }
};

// Streams vocab.json, one flat object of token -> id. (A document tree would keep only one of two equal keys.)
class VocabHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::pair<std::string, std::uint64_t>> entries;
  std::string problem;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_float(double, const std::string& text) override { return refuse(text); }
  bool number_integer(std::int64_t value) override { return refuse(fmt::format("{}", value)); }
  bool string(std::string&) override { return refuse("a string"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool start_array(std::size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool end_object() override { return true; }
  bool start_object(std::size_t) override { return std::exchange(inside_, true) ? refuse("an object") : true; }
  bool key(std::string& name) override {
    token_ = std::move(name);
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!inside_ || value >= kMaxId) return refuse(fmt::format("{}", value));
    entries.emplace_back(std::move(token_), value);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    problem = e.what();
    return false;
  }

 private:
  bool refuse(const std::string& value) {
    problem = inside_ ? fmt::format("token '{}' has {} where an id from 0 to {} belongs", token_, value, kMaxId - 1)
                      : "it must be one JSON object of token and id";
    return false;
  }
  bool inside_ = false;
  std::string token_;
};

struct Loader {
  fs::path vocab_file, merges_file, config_file;
  Alphabet alphabet;
  std::vector<std::string> symbols;  // by id, as spelled in vocab.json
  std::unordered_map<std::string_view, std::int32_t> id_of;
  Vocabulary out;

  Result<void> read_vocab();
  Result<void> read_merges();
  Result<void> add_merge(std::string_view line, std::size_t line_number);
  Result<void> read_config();
  Result<void> read_decoder(const nlohmann::json& decoder);
  Result<void> read_additional(const nlohmann::json& names);
  Result<void> add(std::string content, std::int32_t id);
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view symbol) const {
    const auto found = id_of.find(symbol);
    return found == id_of.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] Result<void> check_reachable() const;
};

Result<void> Loader::read_vocab() {
  TRITIUM_TRY_ASSIGN(const std::string text, read_text(vocab_file));
  VocabHandler handler;
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(text, &handler);
  } catch (const std::exception& e) { handler.problem = e.what(); }
  if (!parsed) return bad(vocab_file, handler.problem);
  const std::size_t n = handler.entries.size();
  symbols.resize(n);
  out.bytes.resize(n);
  id_of.reserve(n);
  std::vector<bool> taken(n);
  for (auto& [token, id] : handler.entries) {
    if (id >= n) return bad(vocab_file, fmt::format("token '{}' has id {}, but the ids of {} tokens must be 0 to {}", token, id, n, n - 1));
    const auto slot = static_cast<std::size_t>(id);
    if (taken[slot]) return bad(vocab_file, fmt::format("tokens '{}' and '{}' share the id {}", symbols[slot], token, id));
    auto bytes = alphabet.bytes(token);
    if (token.empty() || !bytes) return bad(vocab_file, fmt::format("token '{}' (id {}) is not spelled in the byte alphabet", token, id));
    taken[slot] = true;
    symbols[slot] = std::move(token);
    out.bytes[slot] = *std::move(bytes);
    if (!id_of.emplace(symbols[slot], static_cast<std::int32_t>(id)).second)
      return bad(vocab_file, fmt::format("token '{}' occurs twice", symbols[slot]));
  }
  for (std::size_t b = 0; b < 256; ++b) {
    const auto id = find(alphabet.symbol[b]);
    if (!id) return bad(vocab_file, fmt::format("the token '{}' of byte 0x{:02X} is missing", alphabet.symbol[b], b));
    out.byte_ids[b] = *id;
  }
  return {};
}

Result<void> Loader::add_merge(std::string_view line, std::size_t line_number) {
  const auto refuse = [&](const std::string& what) { return bad(merges_file, fmt::format("line {}: {}", line_number, what)); };
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string_view::npos || space + 1 == line.size() || line.find(' ', space + 1) != std::string_view::npos)
    return refuse(fmt::format("'{}' is not two tokens with one space between them", line));
  const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
  const std::string joined = std::string(left).append(right);
  Merge merge;
  for (const auto& [token, id] :
       {std::pair(left, &merge.left), std::pair(right, &merge.right), std::pair(std::string_view(joined), &merge.product)}) {
    const auto found = find(token);
    if (!found) return refuse(fmt::format("token '{}' is not in vocab.json", token));
    *id = *found;
  }
  if (!out.ranks.insert(merge.left, merge.right, static_cast<std::int32_t>(out.merges.size())))
    return refuse(fmt::format("the pair '{}' occurs twice", line));
  out.merges.push_back(merge);
  return {};
}

Result<void> Loader::read_merges() {
  TRITIUM_TRY_ASSIGN(const std::string text, read_text(merges_file));
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  out.merges.reserve(lines);
  out.ranks.reserve(lines);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);            // a checkout with Windows line ends; CR itself is spelled otherwise
    if (number == 1 && line.starts_with("#version")) continue;  // the header that other releases of this family have
    TRITIUM_TRY(add_merge(line, number));
  }
  return {};
}

Result<void> Loader::add(std::string content, std::int32_t id) {
  const auto refuse = [&](const std::string& what) { return bad(config_file, fmt::format("added token '{}': {}", content, what)); };
  const auto index = static_cast<std::size_t>(id);
  if (index < symbols.size() && symbols[index] != content)
    return refuse(fmt::format("its id {} belongs to '{}' of vocab.json", id, symbols[index]));
  for (const AddedToken& other : out.added) {
    if (other.content == content) return refuse("it is listed twice");
    if (other.id == id) return refuse(fmt::format("its id {} belongs to '{}'", id, other.content));
  }
  if (index >= out.bytes.size()) out.bytes.resize(index + 1);
  out.bytes[index] = content;
  out.added.push_back({std::move(content), id});
  return {};
}

// added_tokens_decoder: "151643": {"content": "<|endoftext|>", ...}
Result<void> Loader::read_decoder(const nlohmann::json& decoder) {
  if (!decoder.is_object()) return bad(config_file, "'added_tokens_decoder' must be an object");
  for (const auto& [key, token] : decoder.items()) {
    std::uint64_t id = 0;
    const auto [stop, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || stop != key.data() + key.size() || id >= kMaxId)
      return bad(config_file, fmt::format("'added_tokens_decoder': '{}' is not an id from 0 to {}", key, kMaxId - 1));
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (!token.is_object() || content == token.end() || !content->is_string() || content->get_ref<const std::string&>().empty())
      return bad(config_file, fmt::format("'added_tokens_decoder': token {} has no 'content'", key));
    for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"})
      if (const auto set = token.find(flag); set != token.end() && *set != false)
        return bad(config_file,
                   fmt::format("'added_tokens_decoder': token {} sets '{}', which this program does not know how to honour", key, flag),
                   "use the tokenizer files of the release");
    TRITIUM_TRY(add(content->get<std::string>(), static_cast<std::int32_t>(id)));
  }
  return {};
}

// additional_special_tokens: names; those known nowhere yet take the next free ids in list order (§1.1).
Result<void> Loader::read_additional(const nlohmann::json& names) {
  if (!names.is_array()) return bad(config_file, "'additional_special_tokens' must be an array");
  for (const nlohmann::json& name : names) {
    const nlohmann::json& text = name.is_object() && name.contains("content") ? name["content"] : name;
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return bad(config_file, "'additional_special_tokens' must hold names");
    auto content = text.get<std::string>();
    if (std::any_of(out.added.begin(), out.added.end(), [&](const AddedToken& known) { return known.content == content; })) continue;
    const std::int32_t id = find(content).value_or(static_cast<std::int32_t>(out.bytes.size()));
    TRITIUM_TRY(add(std::move(content), id));
  }
  return {};
}

Result<void> Loader::read_config() {
  TRITIUM_TRY_ASSIGN(const std::string text, read_text(config_file));
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) { return bad(config_file, e.what()); }
  if (!config.is_object()) return bad(config_file, "it must be a JSON object");
  const auto decoder = config.find("added_tokens_decoder"), names = config.find("additional_special_tokens");
  if (decoder != config.end() && !decoder->is_null()) TRITIUM_TRY(read_decoder(*decoder));
  if (names != config.end() && !names->is_null()) TRITIUM_TRY(read_additional(*names));
  std::stable_sort(out.added.begin(), out.added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  return {};
}

Result<void> Loader::check_reachable() const {
  std::vector<bool> reachable(symbols.size());
  for (const std::int32_t id : out.byte_ids) reachable[static_cast<std::size_t>(id)] = true;
  for (const Merge& merge : out.merges) reachable[static_cast<std::size_t>(merge.product)] = true;
  for (const AddedToken& token : out.added)
    if (static_cast<std::size_t>(token.id) < reachable.size()) reachable[static_cast<std::size_t>(token.id)] = true;
  const auto lost = std::find(reachable.begin(), reachable.end(), false);
  if (lost == reachable.end()) return {};
  return bad(merges_file, fmt::format("{} of the {} tokens of vocab.json are the result of no merge, the first is '{}'; the file is cut "
                                      "short or belongs to another vocabulary",
                                      std::count(reachable.begin(), reachable.end(), false), symbols.size(),
                                      symbols[static_cast<std::size_t>(lost - reachable.begin())]));
}

}  // namespace

void MergeTable::reserve(std::size_t merges) {
  int bits = 1;
  while ((std::size_t{1} << bits) < 2 * merges) ++bits;
  slots_.assign(std::size_t{1} << bits, Slot{});
  shift_ = 64 - bits;
}

bool MergeTable::insert(std::int32_t left, std::int32_t right, std::int32_t rank) {
  const std::uint64_t wanted = key(left, right);
  std::size_t i = slot_of(wanted);
  while (slots_[i].rank != kNone) {
    if (slots_[i].key == wanted) return false;
    i = (i + 1) & (slots_.size() - 1);
  }
  slots_[i] = {wanted, rank};
  return true;
}

Result<Vocabulary> Vocabulary::load(const fs::path& folder) {
  Loader loader;
  loader.vocab_file = folder / "vocab.json";
  loader.merges_file = folder / "merges.txt";
  loader.config_file = folder / "tokenizer_config.json";
  TRITIUM_TRY(loader.read_vocab());
  TRITIUM_TRY(loader.read_merges());
  TRITIUM_TRY(loader.read_config());
  TRITIUM_TRY(loader.check_reachable());
  return std::move(loader.out);
}

}  // namespace tritium
