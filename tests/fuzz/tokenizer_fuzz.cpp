// Any bytes as a prompt: refused exactly when they are not UTF-8; otherwise the ids stand for the text in normal form.
#include "model/prompt/presentation.h"
#include "model/prompt/unicode.h"
#include "require.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace {

using namespace tritium;

constexpr const char* kAdded[] = {"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<d>", "</d>"};

// Used where the demonstration model is not in the source tree: the bytes and a few merges.
std::filesystem::path make_vocabulary() {
  std::string name = (std::filesystem::temp_directory_path() / "tritium_fuzz.XXXXXX").string();
  FUZZ_REQUIRE(::mkdtemp(name.data()) != nullptr);
  const std::filesystem::path folder = name;
  std::string vocab, merges, added;
  int id = 0;
  const auto add = [&](const std::string& token) {
    const std::string escaped = token == "\"" || token == "\\" ? "\\" + token : token;
    vocab += fmt::format(R"({}"{}":{})", id == 0 ? "{" : ",", escaped, id);
    ++id;
  };
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    std::string symbol;
    unicode::append_utf8(symbol, (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE ? b : next++);
    add(symbol);
  }
  for (const char* pair : {"a a", "aa aa", "t h", "th e", "i n", "a b", "ab a", "\u0120 the", "\u00C3 \u00A9"}) {
    std::string token = pair;
    merges += token + "\n";
    add(token.erase(token.find(' '), 1));
  }
  for (const char* token : kAdded) added += fmt::format(R"({}"{}")", added.empty() ? "" : ",", token);
  std::ofstream(folder / "vocab.json") << vocab << "}";
  std::ofstream(folder / "merges.txt") << merges;
  std::ofstream(folder / "tokenizer_config.json") << fmt::format(R"({{"additional_special_tokens":[{}]}})", added);
  return folder;
}

const Tokenizer& tokenizer() {
  static const Tokenizer instance = [] {
    const std::filesystem::path demo = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA/tokenizer";
    const bool has_demo = std::filesystem::exists(demo);
    const std::filesystem::path folder = has_demo ? demo : make_vocabulary();
    auto loaded = Tokenizer::load(folder);
    if (!loaded.ok()) std::fprintf(stderr, "%s\n", loaded.error().text().c_str());
    FUZZ_REQUIRE(loaded.ok());
    if (!has_demo) std::filesystem::remove_all(folder);
    return std::move(loaded).value();
  }();
  return instance;
}

// Added tokens have a text of their own that the tokenizer knows by name.
bool is_added(std::int32_t id) {
  const std::int32_t ids[] = {id};
  return tokenizer().token_id(tokenizer().decode(ids)) == id;
}

void check_presentation(std::string_view text, const std::vector<std::int32_t>& ids) {
  const auto built = present_t2va(tokenizer(), text);
  if (!built.ok()) return FUZZ_REQUIRE(text.empty() || ids.size() > 262144);
  FUZZ_REQUIRE(built->ids == ids && built->tags.size() == ids.size() && built->positions.size() == ids.size());
  const std::vector<PatchGrid> keyframe{{1, 4, 6}};
  const auto with_picture = present_fl2va(tokenizer(), text, keyframe);
  if (with_picture.ok()) FUZZ_REQUIRE(std::equal(ids.rbegin(), ids.rend(), with_picture->ids.rbegin()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer().encode(text);
  FUZZ_REQUIRE(ids.ok() == !unicode::invalid_utf8_at(text).has_value());
  if (!ids.ok()) return 0;
  for (const std::int32_t id : *ids) FUZZ_REQUIRE(id >= 0 && id < tokenizer().vocab_size());
  if (std::none_of(ids->begin(), ids->end(), is_added)) {
    const std::string normal = unicode::nfc(text);
    FUZZ_REQUIRE(tokenizer().decode(*ids) == normal);
    FUZZ_REQUIRE(unicode::nfc(std::string_view(normal)) == normal);
    const auto again = tokenizer().encode(normal);
    FUZZ_REQUIRE(again.ok() && *again == *ids);
  }
  check_presentation(text, *ids);
  return 0;
}
