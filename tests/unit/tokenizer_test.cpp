// Unicode facts, damaged vocabularies, and the corners of encoding and presentation that golden files cannot show.
#include "model/prompt/tokenizer.h"
#include "model/prompt/presentation.h"
#include "model/prompt/unicode.h"
#include "unit/temp_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <functional>
#include <numeric>

namespace tritium {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Unicode, ClassesAreThoseOfVersion15_1) {
  // FNV-1a over the classes of all code points (0 other, 1 letter, 2 number, 3 space), from the tables of Unicode 15.1.
  std::uint64_t hash = 0xCBF29CE484222325ull;
  int letters = 0, numbers = 0, spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    const auto cls = unicode::char_class(c);
    letters += cls == unicode::CharClass::letter;
    numbers += cls == unicode::CharClass::number;
    spaces += cls == unicode::CharClass::space;
    hash = (hash ^ static_cast<std::uint64_t>(cls)) * 0x100000001B3ull;
  }
  EXPECT_EQ(letters, 136726);
  EXPECT_EQ(numbers, 1831);
  EXPECT_EQ(spaces, 25);
  EXPECT_EQ(hash, 0x7A9FDFC65EBDEB9Eull);
}

TEST(Unicode, InvalidUtf8IsFoundAtItsFirstByte) {
  using unicode::invalid_utf8_at;
  for (const std::string_view good :
       {std::string_view(""), std::string_view("a\0b", 3), std::string_view("\x7F\xC2\x80\xDF\xBF"),
        std::string_view("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"), std::string_view("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF")})
    EXPECT_FALSE(invalid_utf8_at(good)) << good;
  for (const std::string_view bad :
       {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2",
        "\xC2"
        "A",
        "\xE0\x80\x80", "\xE0\x9F\xBF", "\xE1\x80", "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF1\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xE1\x80\xC0"}) {
    EXPECT_EQ(invalid_utf8_at(std::string("ok\xC3\xA9").append(bad)), 4u) << fmt::format("{:02X}", static_cast<unsigned char>(bad[0]));
  }
}

TEST(Unicode, Nfc) {
  using unicode::nfc;
  EXPECT_EQ(nfc("plain"), "plain");
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("\u212B\u2126\u212A"), "\u00C5\u03A9K");                    // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");                                 // composition exclusion
  EXPECT_EQ(nfc("a\u0315\u0300\u05AE\u0301"), "\u00E0\u05AE\u0301\u0315");  // reordering, then composition with the first of its class
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(nfc("\u1112\u0301\u1161"), "\u1112\u0301\u1161");  // a mark between jamo blocks them
  EXPECT_EQ(nfc(std::string_view("a\0e\u0301", 5)), std::string_view("a\0\u00E9", 4));
  // Pairs that Unicode 16 composes are unassigned in 15.1 and stay as they are.
  EXPECT_EQ(nfc("\U000105D2\u0307"), "\U000105D2\u0307");
  EXPECT_EQ(nfc("\U00016121\U0001611E"), "\U00016121\U0001611E");
}

std::string byte_symbol(std::size_t byte) {
  static const auto table = [] {
    std::vector<std::string> out(256);
    char32_t next = 0x100;
    for (std::size_t b = 0; b < 256; ++b)
      unicode::append_utf8(out[b], (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE ? static_cast<char32_t>(b) : next++);
    return out;
  }();
  return table[byte];
}

// A small vocabulary: the 256 bytes (id = byte), then the products of the merges in order, then the added tokens.
struct Files {
  std::vector<std::pair<std::string, int>> vocab;
  std::string merges;
  std::string decoder, additional = R"(["<|vision_start|>","<|vision_end|>","<|image_pad|>","<|video_pad|>"])";
  std::string config;  // replaces what the two above give

  Files() {
    for (std::size_t b = 0; b < 256; ++b) vocab.emplace_back(byte_symbol(b), static_cast<int>(b));
    for (const char* pair : {"a a", "aa aa", "t h", "th e", "b c", "a bc"}) add_merge(pair);
  }
  void add_merge(std::string pair) {
    merges += pair + "\n";
    pair.erase(pair.find(' '), 1);
    vocab.emplace_back(pair, static_cast<int>(vocab.size()));
  }
  [[nodiscard]] std::string vocab_json() const {
    std::string out;
    for (const auto& [token, id] : vocab)
      out += fmt::format(R"({}"{}":{})", out.empty() ? "{" : ",", token == "\"" || token == "\\" ? "\\" + token : token, id);
    return out + "}";
  }
  [[nodiscard]] std::string config_json() const {
    return config.empty() ? fmt::format(R"({{"added_tokens_decoder":{{{}}},"additional_special_tokens":{}}})", decoder, additional)
                          : config;
  }
  [[nodiscard]] Result<Tokenizer> load() const {
    const test::TempFolder folder;
    folder.write("vocab.json", vocab_json());
    folder.write("merges.txt", merges);
    folder.write("tokenizer_config.json", config_json());
    return Tokenizer::load(folder.path());
  }
};

Tokenizer small(const std::function<void(Files&)>& change = {}) {
  Files files;
  if (change) change(files);
  auto loaded = files.load();
  if (!loaded.ok()) ADD_FAILURE() << loaded.error().text();
  return std::move(loaded).value();
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  auto ids = tokenizer.encode(text);
  if (!ids.ok()) ADD_FAILURE() << ids.error().text();
  return ids.ok() ? *ids : Ids{};
}

void expect_refused(const std::function<void(Files&)>& change, std::initializer_list<std::string_view> parts) {
  Files files;
  change(files);
  const auto loaded = files.load();
  ASSERT_FALSE(loaded.ok()) << "expected: " << *parts.begin();
  EXPECT_EQ(loaded.error().code, ErrorCode::model);
  for (const std::string_view part : parts)
    EXPECT_NE(loaded.error().text().find(part), std::string::npos) << loaded.error().text() << "\n  expected: " << part;
}

TEST(TokenizerFiles, MissingFilesAreNamed) {
  const test::TempFolder folder;
  const Files files;
  for (const auto& [name, content] : {std::pair("vocab.json", files.vocab_json()), std::pair("merges.txt", files.merges),
                                      std::pair("tokenizer_config.json", files.config_json())}) {
    const auto loaded = Tokenizer::load(folder.path());
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, ErrorCode::model);
    EXPECT_NE(loaded.error().message.find(name), std::string::npos) << loaded.error().text();
    folder.write(name, content);
  }
  EXPECT_TRUE(Tokenizer::load(folder.path()).ok());
}

TEST(TokenizerFiles, DamagedVocabularyIsRefused) {
  expect_refused([](Files& f) { f.vocab.erase(f.vocab.begin() + 10); }, {"vocab.json", "must be 0 to"});
  expect_refused([](Files& f) { f.vocab[10].first = "@@"; }, {"vocab.json", "byte 0x0A", "missing"});
  expect_refused([](Files& f) { f.vocab[10].second = 11; }, {"vocab.json", "share the id 11"});
  expect_refused([](Files& f) { f.vocab[260].first = f.vocab[259].first; }, {"vocab.json", "occurs twice"});
  expect_refused([](Files& f) { f.vocab[260].first = "\u4E00"; }, {"vocab.json", "byte alphabet"});
  expect_refused([](Files& f) { f.vocab[260].first = ""; }, {"vocab.json", "byte alphabet"});
  expect_refused([](Files& f) { f.vocab[260].second = 1 << 30; }, {"vocab.json", "1073741824"});
  expect_refused([](Files& f) { f.vocab[260].second = -1; }, {"vocab.json", "-1"});
  expect_refused([](Files& f) { f.vocab.clear(); }, {"vocab.json"});
}

TEST(TokenizerFiles, VocabularyMustBeOneFlatJsonObject) {
  const test::TempFolder folder;
  const Files files;
  folder.write("merges.txt", files.merges);
  folder.write("tokenizer_config.json", files.config_json());
  for (const std::string_view text : {"", "[]", "7", "{\"a\":{}}", "{\"a\":[1]}", "{\"a\":\"b\"}", "{\"a\":1.5}", "{\"a\":1",
                                      "{\"\xFF\":1}", "{} {}", "version https://git-lfs.github.com/spec/v1"}) {
    folder.write("vocab.json", text);
    const auto loaded = Tokenizer::load(folder.path());
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_NE(loaded.error().message.find("vocab.json"), std::string::npos) << loaded.error().text();
  }
}

TEST(TokenizerFiles, DamagedMergesAreRefusedWithTheirLine) {
  expect_refused([](Files& f) { f.merges += "abc\n"; }, {"merges.txt", "line 7", "'abc'"});
  expect_refused([](Files& f) { f.merges += "a b c\n"; }, {"merges.txt", "line 7"});
  expect_refused([](Files& f) { f.merges += "a  b\n"; }, {"merges.txt", "line 7"});
  expect_refused([](Files& f) { f.merges += " a\n"; }, {"merges.txt", "line 7"});
  expect_refused([](Files& f) { f.merges += "a \n"; }, {"merges.txt", "line 7"});
  expect_refused([](Files& f) { f.merges += "\n"; }, {"merges.txt", "line 7"});
  expect_refused([](Files& f) { f.merges += "a zz\n"; }, {"merges.txt", "line 7", "'zz'", "vocab.json"});
  expect_refused([](Files& f) { f.merges += "a b\n"; }, {"merges.txt", "line 7", "'ab'", "vocab.json"});
  expect_refused([](Files& f) { f.merges += "a a\n"; }, {"merges.txt", "line 7", "twice"});
  expect_refused([](Files& f) { f.merges += "\xFF a\n"; }, {"merges.txt", "UTF-8"});
  expect_refused([](Files& f) { f.merges.resize(f.merges.rfind("a bc")); }, {"merges.txt", "1 of the 262", "'abc'"});
  expect_refused([](Files& f) { f.merges.clear(); }, {"merges.txt", "6 of the 262"});
}

TEST(TokenizerFiles, HeaderLineAndWindowsLineEndsAreAccepted) {
  const auto plain = encode(small(), "the aaaa abc");
  EXPECT_EQ(encode(small([](Files& f) { f.merges = "#version: 0.2\n" + f.merges; }), "the aaaa abc"), plain);
  const auto windows = small([](Files& f) {
    for (std::size_t at = f.merges.find('\n'); at != std::string::npos; at = f.merges.find('\n', at + 2)) f.merges.insert(at, "\r");
  });
  EXPECT_EQ(encode(windows, "the aaaa abc"), plain);
}

TEST(TokenizerFiles, DamagedConfigIsRefused) {
  const auto config = [](std::string_view text) { return [text](Files& f) { f.config = text; }; };
  expect_refused(config("{"), {"tokenizer_config.json", "line 1"});
  expect_refused(config("[]"), {"tokenizer_config.json", "object"});
  expect_refused(config(R"({"added_tokens_decoder":[]})"), {"'added_tokens_decoder'"});
  expect_refused(config(R"({"additional_special_tokens":{}})"), {"'additional_special_tokens'"});
  expect_refused(config(R"({"additional_special_tokens":[1]})"), {"'additional_special_tokens'"});
  expect_refused(config(R"({"additional_special_tokens":[""]})"), {"'additional_special_tokens'"});
  for (const char* id : {"", "x", "-1", "1x", "99999999999999999999", "20000000"})
    expect_refused([id](Files& f) { f.decoder = fmt::format(R"("{}":{{"content":"<x>"}})", id); }, {fmt::format("'{}'", id)});
  expect_refused([](Files& f) { f.decoder = R"("262":{"special":true})"; }, {"262", "content"});
  expect_refused([](Files& f) { f.decoder = R"("262":"<x>")"; }, {"262", "content"});
  expect_refused([](Files& f) { f.decoder = R"("262":{"content":""})"; }, {"262", "content"});
  expect_refused([](Files& f) { f.decoder = R"("262":{"content":"<x>","lstrip":true})"; }, {"262", "lstrip"});
  expect_refused([](Files& f) { f.decoder = R"("261":{"content":"<x>"})"; }, {"'<x>'", "261", "'abc'"});
  expect_refused([](Files& f) { f.decoder = R"("262":{"content":"<x>"},"263":{"content":"<x>"})"; }, {"'<x>'", "twice"});
  expect_refused([](Files& f) { f.decoder = R"("262":{"content":"<x>"},"0262":{"content":"<y>"})"; }, {"262", "belongs to"});
}

TEST(TokenizerFiles, AdditionalTokensTakeTheNextFreeIds) {
  const auto tokenizer = small([](Files& f) {
    f.decoder = R"("263":{"content":"<two>"},"262":{"content":"<one>"})";
    f.additional = R"(["<three>","<one>",{"content":"<four>"},"abc"])";
  });
  EXPECT_EQ(tokenizer.token_id("<one>"), 262);
  EXPECT_EQ(tokenizer.token_id("<two>"), 263);
  EXPECT_EQ(tokenizer.token_id("<three>"), 264);
  EXPECT_EQ(tokenizer.token_id("<four>"), 265);
  EXPECT_EQ(tokenizer.token_id("abc"), 261);  // in the vocabulary already
  EXPECT_EQ(tokenizer.token_id("the"), std::nullopt);
  EXPECT_EQ(tokenizer.vocab_size(), 266);
}

TEST(Tokenizer, LowestRankFirstLeftmostFirst) {
  const auto tokenizer = small();
  EXPECT_EQ(encode(tokenizer, "aaa"), (Ids{256, 'a'}));
  EXPECT_EQ(encode(tokenizer, "aaaaaaa"), (Ids{257, 256, 'a'}));
  EXPECT_EQ(encode(tokenizer, "abc"), (Ids{261}));
  EXPECT_EQ(encode(tokenizer, "aabc"), (Ids{256, 260}));  // "a a" ranks before "b c" and takes the a away
  EXPECT_EQ(encode(tokenizer, "the"), (Ids{259}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
}

TEST(Tokenizer, LongestAddedTokenAtTheEarliestPlaceAlsoInsideWords) {
  const auto tokenizer = small([](Files& f) { f.additional = R"(["<d>","<d>x","d>","</d>"])"; });
  const auto id = [&](std::string_view token) { return tokenizer.token_id(token).value_or(-1); };
  EXPECT_EQ(encode(tokenizer, "the<d>the</d>the"), (Ids{259, id("<d>"), 259, id("</d>"), 259}));
  EXPECT_EQ(encode(tokenizer, "<d>xd>"), (Ids{id("<d>x"), id("d>")}));
  EXPECT_EQ(encode(tokenizer, "<<d>>"), (Ids{'<', id("<d>"), '>'}));
  EXPECT_EQ(encode(tokenizer, "<D>"), (Ids{'<', 'D', '>'}));
  EXPECT_EQ(encode(tokenizer, "<d"), (Ids{'<', 'd'}));
  EXPECT_EQ(encode(tokenizer, " <d> "), (Ids{' ', id("<d>"), ' '}));
}

TEST(Tokenizer, EachSegmentIsNormalizedOnItsOwn) {
  const auto tokenizer = small([](Files& f) { f.additional = R"(["<e>"])"; });
  EXPECT_EQ(encode(tokenizer, "e\u0301"), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(encode(tokenizer, "<e>\u0301"), (Ids{*tokenizer.token_id("<e>"), 0xCC, 0x81}));
  EXPECT_EQ(encode(tokenizer, "\u212B"), (Ids{0xC3, 0x85}));
}

TEST(Tokenizer, NulIsAnOrdinaryCharacter) { EXPECT_EQ(encode(small(), std::string_view("a\0a", 3)), (Ids{'a', 0, 'a'})); }

TEST(Tokenizer, InvalidUtf8IsRefusedWithItsPlace) {
  const auto ids = small().encode("ab\xED\xA0\x80");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::usage);
  EXPECT_NE(ids.error().message.find("0xED at offset 2"), std::string::npos) << ids.error().text();
}

// Texts on which a careless implementation needs quadratic time: these would run for minutes.
TEST(Tokenizer, LongHostileTexts) {
  const auto tokenizer = small();
  constexpr std::size_t kLength = 1 << 20;
  const auto run = encode(tokenizer, std::string(kLength, 'a'));
  EXPECT_EQ(run, Ids(kLength / 4, 257));
  std::string marks;
  for (std::size_t i = 0; i < kLength / 4; ++i) marks += "\u0301";
  for (std::size_t i = 0; i < kLength / 4; ++i) marks += "\u0316";
  EXPECT_TRUE(tokenizer.decode(encode(tokenizer, marks)).starts_with("\u0316\u0316"));
  for (const char* unit : {"<", " ", "\n", " \n", "<|vision_", "'", "1"}) {
    std::string text;
    while (text.size() < kLength) text += unit;
    EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text) << unit;
  }
}

TEST(Tokenizer, DecodeMarksUnknownIds) {
  const auto tokenizer = small();
  const Ids ids{'a', -1, 256, 1 << 20};
  EXPECT_EQ(tokenizer.decode(ids), "a\uFFFDaa\uFFFD");
}

// The vocabulary of the demonstration model.
TEST(Tokenizer, DemoVocabularyRoundTrip) {
  const auto loaded = Tokenizer::load(std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA/tokenizer");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  for (const char* token : {"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<d>", "</d>"}) {
    const auto id = loaded->token_id(token);
    ASSERT_TRUE(id) << token;
    EXPECT_EQ(encode(*loaded, token), Ids{*id});
  }
  for (const std::string_view text : {"A red ball bounces; against the blue sky.\n", "He said <d>hold</d>!",
                                      "\u4E00\u4E2A\u767D\u8272 \U0001F3C4 caf\u00E9 123", "  two  spaces  "})
    EXPECT_EQ(loaded->decode(encode(*loaded, text)), text);
  for (std::int32_t id = 0; id < loaded->vocab_size(); ++id) EXPECT_FALSE(loaded->decode(Ids{id}).empty()) << id;
}

class Presentations : public ::testing::Test {
 protected:
  const Tokenizer tokenizer_ = small();
  const PatchGrid grid_{1, 4, 6};
  static PromptReference image(PatchGrid grid) { return {PromptReference::Kind::image, grid, 0, false}; }
  static PromptReference video(PatchGrid grid, int frames) { return {PromptReference::Kind::video, grid, frames, false}; }
  static PromptReference audio() { return {PromptReference::Kind::audio, {}, 0, false}; }
};

void expect_error(const Result<Presentation>& built, ErrorCode code, std::string_view field, std::string_view part) {
  ASSERT_FALSE(built.ok()) << "expected: " << part;
  EXPECT_EQ(built.error().code, code);
  EXPECT_EQ(built.error().field, field);
  EXPECT_NE(built.error().text().find(part), std::string::npos) << built.error().text();
}

TEST_F(Presentations, EmptyPrompt) {
  expect_error(present_t2va(tokenizer_, ""), ErrorCode::usage, "prompt", "at least one character");
  expect_error(present_ref2va(tokenizer_, "", std::vector{image(grid_)}), ErrorCode::usage, "prompt", "at least one character");
  const auto built = present_fl2va(tokenizer_, "", std::vector{grid_});
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(built->warnings.size(), 1u);
  EXPECT_TRUE(present_t2va(tokenizer_, " ").ok());
}

TEST_F(Presentations, InvalidUtf8NamesThePrompt) { expect_error(present_t2va(tokenizer_, "\xC3"), ErrorCode::usage, "prompt", "UTF-8"); }

TEST_F(Presentations, LengthLimitNamesTheCount) {
  expect_error(present_t2va(tokenizer_, "ttttt", {.max_tokens = 4}), ErrorCode::usage, "prompt", "5 tokens, more than the limit of 4");
  EXPECT_TRUE(present_t2va(tokenizer_, "tttt", {.max_tokens = 4}).ok());
  expect_error(present_fl2va(tokenizer_, "x", std::vector{PatchGrid{1, 2000, 2000}}), ErrorCode::usage, "prompt", "262144");
  expect_error(present_t2va(tokenizer_, std::string(262145, '1')), ErrorCode::usage, "prompt", "262145");
}

TEST_F(Presentations, PadTokensInThePrompt) {
  for (const char* prompt : {"look <|image_pad|>", "<|video_pad|>"}) {
    expect_error(present_fl2va(tokenizer_, prompt, std::vector{grid_}), ErrorCode::usage, "prompt", "_pad|>");
    const auto built = present_t2va(tokenizer_, prompt);
    ASSERT_TRUE(built.ok());
    EXPECT_EQ(built->warnings.size(), 1u);
    EXPECT_EQ(built->positions.back(), (TokenPosition{static_cast<int>(built->ids.size()) - 1, static_cast<int>(built->ids.size()) - 1,
                                                      static_cast<int>(built->ids.size()) - 1}));
    EXPECT_TRUE(present_ref2va(tokenizer_, prompt, std::vector{audio()}).ok());
  }
}

TEST_F(Presentations, LabelsWithoutInputAreWarnedAbout) {
  const auto built = present_fl2va(
      tokenizer_, "<Picture 1> to <Picture 3>, <Picture 3>, <Audio 1>, <Video 0>, <Picture x>, <Picture 99999999999>, <Picture -2>",
      std::vector{grid_});
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(built->warnings.size(), 3u);
  EXPECT_NE(built->warnings[0].find("<Picture 3>"), std::string::npos);
  EXPECT_NE(built->warnings[0].find("only 1"), std::string::npos);
  EXPECT_NE(built->warnings[1].find("<Audio 1>"), std::string::npos);
  EXPECT_NE(built->warnings[2].find("<Video 0>"), std::string::npos);
  std::string many;
  for (int i = 1; i < 1000; ++i) many += fmt::format("<Picture {}>", i);
  EXPECT_LT(present_t2va(tokenizer_, many)->warnings.size(), 10u);
}

TEST_F(Presentations, KeyframesAreOneOrTwo) {
  expect_error(present_fl2va(tokenizer_, "x", {}), ErrorCode::usage, "", "1 or 2");
  expect_error(present_fl2va(tokenizer_, "x", std::vector(3, grid_)), ErrorCode::usage, "", "not 3");
}

TEST_F(Presentations, ImpossibleGridsAreInternalErrors) {
  for (const PatchGrid& grid : {PatchGrid{1, 0, 6}, PatchGrid{1, 4, 0}, PatchGrid{0, 4, 6}, PatchGrid{1, 3, 6}, PatchGrid{1, 4, 7},
                                PatchGrid{1, -4, 6}, PatchGrid{2, 4, 6}, PatchGrid{1, INT64_MAX, 6}, PatchGrid{1, 4, INT64_MIN}})
    expect_error(present_fl2va(tokenizer_, "x", std::vector{grid}), ErrorCode::failure, "", "internal error");
  for (const auto& [blocks, frames] : {std::pair(1, 25), std::pair(2, 24), std::pair(1, 0), std::pair(1, -5)})
    expect_error(present_ref2va(tokenizer_, "x", std::vector{video({blocks, 4, 6}, frames)}), ErrorCode::failure, "", "timestamps");
}

TEST_F(Presentations, VisionTokensMustExist) {
  const auto bare = small([](Files& f) { f.additional = "[]"; });
  EXPECT_TRUE(present_t2va(bare, "x").ok());
  expect_error(present_fl2va(bare, "x", std::vector{grid_}), ErrorCode::model, "", "<|vision_start|>");
}

TEST_F(Presentations, TagsMarkTheWholeVisionBlock) {
  const auto built = present_fl2va(tokenizer_, "x", std::vector{grid_});
  ASSERT_TRUE(built.ok());
  ASSERT_EQ(built->ids.size(), built->tags.size());
  ASSERT_EQ(built->ids.size(), built->positions.size());
  EXPECT_EQ(std::count(built->tags.begin(), built->tags.end(), 0), 2 + 6);
  const auto start = std::find(built->ids.begin(), built->ids.end(), *tokenizer_.token_id("<|vision_start|>")) - built->ids.begin();
  EXPECT_EQ(built->tags[static_cast<std::size_t>(start)], 0);
  EXPECT_EQ(built->tags[static_cast<std::size_t>(start) - 1], 1);
}

TEST_F(Presentations, ReferenceLimits) {
  const auto refused = [](const std::vector<PromptReference>& references, std::string_view part) {
    const auto checked = check_references(references);
    ASSERT_FALSE(checked.ok()) << part;
    EXPECT_EQ(checked.error().code, ErrorCode::usage);
    EXPECT_NE(checked.error().text().find(part), std::string::npos) << checked.error().text();
  };
  refused({}, "no reference");
  refused({audio(), audio()}, "audio");
  refused({video({}, 24), video({}, 21)}, "reference video 2 lasts 0.88 s (21 frames");
  refused(std::vector<PromptReference>(10, image({})), "10 pictures");
  refused(std::vector<PromptReference>(4, video({}, 48)), "4 videos");
  refused({image({}), audio(), audio(), audio(), audio()}, "4 audio clips");
  std::vector<PromptReference> full(9, image({}));
  full.insert(full.end(), 3, video({}, 22));
  EXPECT_TRUE(check_references(full).ok());
  full.push_back(audio());
  refused(full, "13 references");
}

TEST(VisionPositions, IdsAndGridsMustMatch) {
  const VisionPads pads{1, 2};
  const std::vector<PatchGrid> one{{1, 2, 4}}, two_blocks{{2, 2, 2}};
  EXPECT_TRUE(vision_positions(Ids{0, 1, 1, 0}, pads, one, {}).ok());
  EXPECT_TRUE(vision_positions(Ids{2, 0, 2}, pads, {}, two_blocks).ok());
  EXPECT_FALSE(vision_positions(Ids{0, 1, 0}, pads, one, {}).ok());   // too few pads
  EXPECT_FALSE(vision_positions(Ids{0, 1}, pads, one, {}).ok());      // cut off
  EXPECT_FALSE(vision_positions(Ids{1, 1, 1}, pads, one, {}).ok());   // too many
  EXPECT_FALSE(vision_positions(Ids{0}, pads, one, {}).ok());         // grid without pads
  EXPECT_FALSE(vision_positions(Ids{2}, pads, {}, two_blocks).ok());  // second block missing
  EXPECT_FALSE(vision_positions(Ids{1, 1}, pads, std::vector{PatchGrid{1, 3, 4}}, {}).ok());
  const auto wide = vision_positions(Ids{0, 1, 1, 0}, pads, one, {});
  EXPECT_EQ(*wide, (std::vector<TokenPosition>{{0, 0, 0}, {1, 1, 1}, {1, 1, 2}, {3, 3, 3}}));
}

}  // namespace
}  // namespace tritium
