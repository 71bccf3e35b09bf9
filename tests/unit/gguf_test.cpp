// GGUF headers made in memory, well-formed and hostile. B1: field case of the loader.
#include "weights/gguf.h"
#include "unit/gguf_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

namespace tritium {
namespace {

using test::GgufFile;
using test::GgufValue;
using test::little_endian;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;

std::span<const std::uint8_t> bytes_of(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

Result<FileHeader> parse(const std::string& bytes) { return parse_gguf(bytes_of(bytes), bytes.size()); }

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  const auto parsed = parse(bytes);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::model);
  for (const std::string_view part : parts)
    EXPECT_NE(parsed.error().text().find(part), std::string::npos) << parsed.error().text() << "\n  expected: " << part;
}

// One F32 tensor "a" [2, 3].
GgufFile small() {
  GgufFile file;
  file.tensor("a", {3, 2}, kF32, 0);
  file.data = std::string(24, 'x');
  return file;
}

TEST(Gguf, ShapesAreReversedAndDataIsPlaced) {
  GgufFile file;
  file.tensor("b", {32, 3}, kQ8_0, 32);
  file.tensor("a", {3}, kF32, 0);
  file.tensor("scalar", {}, kF32, 160);
  file.tensor("none", {0, 7}, kF32, 0);
  file.data = std::string(164, 'x');
  const auto header = parse(file.bytes());
  ASSERT_TRUE(header.ok()) << header.error().text();
  EXPECT_EQ(header->container, Container::gguf);
  const std::uint64_t start = file.bytes().size() - 164;
  const TensorInfo& b = header->tensors.at("b");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{3, 32}));
  EXPECT_EQ(b.dtype, DType::q8_0);
  EXPECT_EQ(b.offset, start + 32);
  EXPECT_EQ(b.bytes, 3u * 34);
  EXPECT_EQ(header->tensors.at("a").shape, std::vector<std::int64_t>{3});
  EXPECT_TRUE(header->tensors.at("scalar").shape.empty());
  EXPECT_EQ(header->tensors.at("scalar").bytes, 4u);
  EXPECT_EQ(header->tensors.at("none").bytes, 0u);
}

TEST(Gguf, EveryValueTypeBecomesText) {
  GgufFile file = small();
  file.pair("u8", GgufValue::u8, little_endian<std::uint8_t>(200));
  file.pair("i8", GgufValue::i8, little_endian<std::int8_t>(-3));
  file.pair("u16", GgufValue::u16, little_endian<std::uint16_t>(60000));
  file.pair("i16", GgufValue::i16, little_endian<std::int16_t>(-300));
  file.u32("u32", 4000000000u);
  file.pair("i32", GgufValue::i32, little_endian<std::int32_t>(-70000));
  file.pair("f32", GgufValue::f32, little_endian(0.1f));
  file.pair("yes", GgufValue::boolean, std::string(1, '\1'));
  file.pair("no", GgufValue::boolean, std::string(1, '\0'));
  file.text("string", "text with \"quotes\"");
  file.text("empty", "");
  file.pair("u64", GgufValue::u64, little_endian(std::numeric_limits<std::uint64_t>::max()));
  file.pair("i64", GgufValue::i64, little_endian(std::numeric_limits<std::int64_t>::min()));
  file.pair("f64", GgufValue::f64, little_endian(-2.5));
  const auto header = parse(file.bytes());
  ASSERT_TRUE(header.ok()) << header.error().text();
  const std::map<std::string, std::string, std::less<>> expected = {{"u8", "200"},
                                                                    {"i8", "-3"},
                                                                    {"u16", "60000"},
                                                                    {"i16", "-300"},
                                                                    {"u32", "4000000000"},
                                                                    {"i32", "-70000"},
                                                                    {"f32", "0.1"},
                                                                    {"yes", "true"},
                                                                    {"no", "false"},
                                                                    {"string", "text with \"quotes\""},
                                                                    {"empty", ""},
                                                                    {"u64", "18446744073709551615"},
                                                                    {"i64", "-9223372036854775808"},
                                                                    {"f64", "-2.5"}};
  EXPECT_EQ(header->metadata, expected);
}

TEST(Gguf, ShortArraysOfNumbersAreKept) {
  GgufFile file = small();
  file.array("numbers", GgufValue::i32, std::vector<std::int32_t>{1, -2, 3});
  file.array("floats", GgufValue::f32, std::vector<float>{0.5f, 2.0f});
  file.array("nothing", GgufValue::u8, std::vector<std::uint8_t>{});
  file.array("just short enough", GgufValue::u8, std::vector<std::uint8_t>(64, 7));
  file.array("long", GgufValue::f64, std::vector<double>(65, 1.0));
  file.pair("names", GgufValue::array,
            little_endian(static_cast<std::uint32_t>(GgufValue::string)) + little_endian<std::uint64_t>(2) + test::gguf_string("one") +
                test::gguf_string(std::string(100000, 'y')));  // longer than the reader's buffer
  file.text("after", "all");
  const auto header = parse(file.bytes());
  ASSERT_TRUE(header.ok()) << header.error().text();
  EXPECT_EQ(header->metadata.at("numbers"), "[1, -2, 3]");
  EXPECT_EQ(header->metadata.at("floats"), "[0.5, 2]");
  EXPECT_EQ(header->metadata.at("nothing"), "[]");
  EXPECT_EQ(header->metadata.at("just short enough").size(), 64u * 3);
  EXPECT_FALSE(header->metadata.contains("long"));
  EXPECT_FALSE(header->metadata.contains("names"));
  EXPECT_EQ(header->metadata.at("after"), "all");
}

TEST(Gguf, OriginalShapesAreRestored) {
  GgufFile file;
  file.tensor("conv", {4, 1, 6}, kF32, 0);
  file.data = std::string(96, 'x');
  const auto with_shape = [&](std::vector<std::int32_t> shape) {
    GgufFile out = file;
    out.array("comfy.gguf.orig_shape.conv", GgufValue::i32, shape);
    out.array("comfy.gguf.orig_shape.absent", GgufValue::i32, std::vector<std::int32_t>{5});
    return out.bytes();
  };
  const auto header = parse(with_shape({2, 3, 1, 2, 2}));
  ASSERT_TRUE(header.ok()) << header.error().text();
  EXPECT_EQ(header->tensors.at("conv").shape, (std::vector<std::int64_t>{2, 3, 1, 2, 2}));
  expect_refused(with_shape({2, 3, 1, 2, 3}), {"conv", "[2, 3, 1, 2, 3]", "[6, 1, 4]"});
  expect_refused(with_shape({-2, -3, 1, 2, 2}), {"conv"});
  expect_refused(with_shape({}), {"conv"});
  GgufFile text = file;
  text.text("comfy.gguf.orig_shape.conv", "[2]");
  expect_refused(text.bytes(), {"comfy.gguf.orig_shape.conv", "array of integers"});
  text = file;
  text.array("comfy.gguf.orig_shape.conv", GgufValue::i32, std::vector<std::int32_t>(65, 1));
  expect_refused(text.bytes(), {"comfy.gguf.orig_shape.conv", "array of integers"});
}

TEST(Gguf, AlignmentMovesTheData) {
  GgufFile file = small();
  for (const std::uint32_t alignment : {1u, 8u, 64u, 4096u}) {
    GgufFile aligned = file;
    aligned.alignment = alignment;
    aligned.u32("general.alignment", alignment);
    const std::string bytes = aligned.bytes();
    const auto header = parse(bytes);
    ASSERT_TRUE(header.ok()) << header.error().text();
    EXPECT_EQ(header->tensors.at("a").offset, bytes.size() - 24) << alignment;
    EXPECT_EQ(header->metadata.at("general.alignment"), fmt::format("{}", alignment));
  }
  for (const std::uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    GgufFile aligned = file;
    aligned.u32("general.alignment", alignment);
    expect_refused(aligned.bytes(), {"general.alignment", fmt::format("{}", alignment), "power of two"});
  }
  file.pair("general.alignment", GgufValue::u64, little_endian<std::uint64_t>(32));
  expect_refused(file.bytes(), {"general.alignment", "32-bit"});
}

TEST(Gguf, VersionsAndStart) {
  GgufFile file = small();
  file.version = 2;
  EXPECT_TRUE(parse(file.bytes()).ok());
  file.version = 1;
  expect_refused(file.bytes(), {"version is 1"});
  file.version = 4;
  expect_refused(file.bytes(), {"version is 4"});
  file.version = 0x03000000;
  expect_refused(file.bytes(), {"big-endian"});
  expect_refused("GGUX" + file.bytes().substr(4), {"does not begin with 'GGUF'"});
  expect_refused("", {"'GGUF'"});
}

TEST(Gguf, CountsAndLengthsAreCheckedAgainstTheFile) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{900000}, kHuge, std::numeric_limits<std::uint64_t>::max() - 1}) {
    GgufFile file = small();
    file.tensor_count = count;
    EXPECT_FALSE(parse(file.bytes()).ok()) << count;
    file = small();
    file.pair_count = count;
    EXPECT_FALSE(parse(file.bytes()).ok()) << count;
  }
  const auto one_pair = [](GgufValue type, const std::string& value) {
    GgufFile file = small();
    file.pair("the key", type, value);
    return file.bytes();
  };
  const auto array_of = [&](std::uint32_t type, std::uint64_t count) {
    return one_pair(GgufValue::array, little_endian(type) + little_endian(count));
  };
  expect_refused(one_pair(GgufValue::string, little_endian(kHuge)), {"the key", "limit"});
  expect_refused(one_pair(GgufValue::string, little_endian<std::uint64_t>(10000)), {"the key", "truncated"});
  for (const std::uint32_t type : {0u, 4u, 8u, 12u}) expect_refused(array_of(type, kHuge << 1), {"the key", "array"});
  expect_refused(array_of(9, 1), {"the key", "array of arrays"});
  expect_refused(array_of(13, 1), {"the key", "unknown value type 13"});
  expect_refused(one_pair(static_cast<GgufValue>(77), ""), {"the key", "unknown value type 77"});
  expect_refused(one_pair(GgufValue::boolean, "\2"), {"the key", "boolean", "2"});
  GgufFile twice = small();
  twice.text("the key", "1");
  twice.text("the key", "2");
  expect_refused(twice.bytes(), {"the key", "duplicate"});
  GgufFile zero = small();
  zero.text(std::string_view("k\0y", 3), "1");
  expect_refused(zero.bytes(), {"zero byte"});
}

TEST(Gguf, TensorsThatCannotBeAreRefusedByName) {
  const auto refuse = [](std::string_view name, std::vector<std::uint64_t> ne, std::uint32_t type, std::uint64_t offset,
                         std::initializer_list<std::string_view> parts) {
    GgufFile file;
    file.tensor(name, ne, type, offset);
    file.data = std::string(1024, 'x');
    expect_refused(file.bytes(), parts);
  };
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  refuse("five", {1, 1, 1, 1, 1}, kF32, 0, {"five", "5 dimensions"});
  refuse("wide", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, kF32, 0, {"wide", "overflows"});
  refuse("negative", {kTop}, kF32, 0, {"negative", "9223372036854775808"});
  for (const std::uint32_t type : {4u, 5u, 9u, 15u, 31u, 36u, 43u, 200u, 0xFFFFFFFFu})
    refuse("odd", {256}, type, 0, {"odd", "type", fmt::format("{}", type)});
  refuse("broken", {40, 2}, kQ8_0, 0, {"broken", "40", "Q8_0", "32"});
  refuse("scalar", {}, kQ8_0, 0, {"scalar", "Q8_0"});
  refuse("crooked", {4}, kF32, 16, {"crooked", "16", "alignment 32"});
  refuse("far", {4}, kF32, 1024, {"far", "1024"});
  refuse("long", {257}, kF32, 0, {"long", "1028"});
  refuse("wrapping", {4}, kF32, std::numeric_limits<std::uint64_t>::max() - 31, {"wrapping"});
  refuse(std::string(513, 'n'), {4}, kF32, 0, {"513"});
  refuse(std::string_view("n\0", 2), {4}, kF32, 0, {"zero byte"});
  GgufFile two;
  two.tensor("a", {16}, kF32, 0);
  two.tensor("b", {16}, kF32, 32);
  two.data = std::string(1024, 'x');
  expect_refused(two.bytes(), {"b", "overlaps", "'a'"});
  two.tensors[1] = two.tensors[0];
  expect_refused(two.bytes(), {"a", "duplicate"});
}

TEST(Gguf, EveryPrefixIsRefusedAndTheHeaderAloneIsEnough) {
  GgufFile file = small();
  file.text("k", "value");
  file.array("numbers", GgufValue::u16, std::vector<std::uint16_t>{1, 2});
  const std::string whole = file.bytes();
  const std::size_t header_bytes = file.header().size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse(whole.substr(0, size)).ok()) << size;  // as a file of that size
    EXPECT_EQ(parse_gguf(bytes_of(whole).first(size), whole.size()).ok(), size >= header_bytes) << size;
  }
  // A file far larger than what is known of it.
  EXPECT_TRUE(parse_gguf(bytes_of(whole).first(header_bytes), std::uint64_t{1} << 40).ok());
}

// Headers longer than the reader's buffer, through a source that tells what is read.
TEST(Gguf, LongHeadersAreReadInPieces) {
  GgufFile file;
  for (int i = 0; i < 5000; ++i) file.tensor(fmt::format("blocks.{}.some_layer.weight", i), {8}, kF32, static_cast<std::uint64_t>(32 * i));
  file.text("long", std::string(200000, 't'));
  file.array("vocabulary", GgufValue::f32, std::vector<float>(1000000, 1.0f));
  file.data = std::string(32 * 5000, 'x');
  const std::string whole = file.bytes();
  std::uint64_t read = 0, largest = 0;
  const auto header = parse_gguf(
      [&](std::uint64_t offset, std::span<std::uint8_t> out) -> Result<void> {
        EXPECT_LE(offset + out.size(), whole.size());
        std::memcpy(out.data(), whole.data() + offset, out.size());
        read += out.size();
        largest = std::max<std::uint64_t>(largest, out.size());
        return {};
      },
      whole.size());
  ASSERT_TRUE(header.ok()) << header.error().text();
  EXPECT_EQ(header->tensors.size(), 5000u);
  EXPECT_EQ(header->metadata.at("long").size(), 200000u);
  EXPECT_LE(largest, 64u << 10);
  EXPECT_LT(read, 1u << 20) << "the vocabulary is passed over";
}

TEST(Gguf, B1_FlippedHeaderBitsNeverPointOutsideTheFile) {
  GgufFile file;
  file.text("k", "v");
  file.array("comfy.gguf.orig_shape.b", GgufValue::i32, std::vector<std::int32_t>{2, 32});
  file.tensor("a", {8, 4}, kF32, 0);
  file.tensor("b", {32, 2}, kQ8_0, 128);
  file.data = std::string(196, 'x');
  const std::string whole = file.bytes();
  ASSERT_TRUE(parse(whole).ok());
  for (std::size_t bit = 0; bit < 8 * file.header().size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = parse(damaged);
    if (!parsed.ok()) continue;
    for (const auto& [name, tensor] : parsed->tensors) EXPECT_LE(tensor.offset + tensor.bytes, damaged.size()) << name << ", bit " << bit;
  }
}

}  // namespace
}  // namespace tritium
