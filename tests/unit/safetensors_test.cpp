// Hostile headers built in memory, damaged files and broken shard sets. Numbers B1, B2: field cases of the loader.
#include "weights/safetensors.h"
#include "unit/temp_folder.h"
#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cstring>

namespace tritium {
namespace {

std::string container(std::string_view json, std::size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>((json.size() >> (8 * i)) & 0xFF));
  out += json;
  for (std::size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<char>(i));
  return out;
}

std::span<const std::uint8_t> bytes_of(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

Result<FileHeader> parse(std::string_view json, std::size_t data_bytes) {
  const std::string file = container(json, data_bytes);
  return parse_safetensors(bytes_of(file), file.size());
}

void expect_refused(std::string_view json, std::size_t data_bytes, std::string_view reason) {
  const auto parsed = parse(json, data_bytes);
  ASSERT_FALSE(parsed.ok()) << json;
  EXPECT_EQ(parsed.error().code, ErrorCode::model);
  EXPECT_NE(parsed.error().text().find(reason), std::string::npos)
      << json << "\n  says: " << parsed.error().text() << "\n  expected: " << reason;
}

// {"<name>":{"dtype":"U8","shape":<shape>,"data_offsets":[<begin>,<end>]}}
std::string entry(std::string_view name, std::string_view shape, std::uint64_t begin, std::uint64_t end, std::string_view dtype = "U8") {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}
std::string object(std::string_view a) { return fmt::format("{{{}}}", a); }
std::string object(std::string_view a, std::string_view b) { return fmt::format("{{{},{}}}", a, b); }

TEST(Safetensors, ReadsTensorsMetadataAndPadding) {
  const std::string json =
      object(R"("__metadata__":{"format":"pt","deep":"[[[{{{"})", entry("b", "[2,3]", 4, 28, "F32") + "," + entry("a", "[]", 0, 4, "I32")) +
      "   ";
  const auto parsed = parse(json, 28);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text();
  EXPECT_EQ(parsed->metadata.at("deep"), "[[[{{{");
  ASSERT_EQ(parsed->tensors.size(), 2u);
  const TensorInfo& b = parsed->tensors.at("b");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(b.offset, 8 + json.size() + 4);
  EXPECT_EQ(b.bytes, 24u);
  EXPECT_EQ(b.elements(), 6);
  EXPECT_EQ(parsed->tensors.at("a").elements(), 1);
}

TEST(Safetensors, EmptyTensorsMayShareAnOffset) {
  const auto parsed = parse(object(entry("a", "[0,7]", 0, 0), entry("b", "[3]", 0, 3) + "," + entry("c", "[0]", 3, 3)), 3);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text();
  EXPECT_EQ(parsed->tensors.at("a").elements(), 0);
  EXPECT_TRUE(parse("{}", 0).ok());
}

TEST(Safetensors, HeaderLengthIsCheckedBeforeUse) {
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    std::string file(10, '{');
    std::memcpy(file.data(), &length, 8);
    EXPECT_FALSE(parse_safetensors(bytes_of(file), file.size()).ok()) << length;
  }
  const std::string whole = container(object(entry("a", "[4]", 0, 4)), 4);
  for (std::size_t have = 0; have < whole.size() - 4; ++have)  // the caller handed over less than the header
    EXPECT_FALSE(parse_safetensors(bytes_of(std::string_view(whole).substr(0, have)), whole.size()).ok()) << have;
}

TEST(Safetensors, MalformedEntriesAreRefused) {
  expect_refused(object(R"("a":{"dtype":"U8","shape":[1]})"), 1, "required");
  expect_refused(object(R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1})"), 1, "unknown field");
  expect_refused(object(R"("a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]})"), 1, "duplicate field");
  expect_refused(object(R"("a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]})"), 1, "F4");
  expect_refused(object(R"("a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]})"), 1, "array");
  expect_refused(object(R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1]})"), 1, "two elements");
  expect_refused(object(R"("a":[1])"), 1, "");
  expect_refused(object(R"("a":null)"), 1, "");
  expect_refused(object(entry("a", "[-1]", 0, 1)), 1, "negative");
  expect_refused(object(entry("a", "[1.0]", 0, 1)), 1, "1.0");
  expect_refused(object(entry("a", "[1e0]", 0, 1)), 1, "1e0");
  expect_refused(object(entry("a", "[18446744073709551616]", 0, 1)), 1, "");
  expect_refused(object(entry("a", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1)), 1, "more than 32");
  expect_refused(object(entry("a", "[9223372036854775808,2]", 0, 0)), 0, "overflow");
  expect_refused(object(entry("a", "[4294967296,4294967296,4294967296,0]", 0, 0)), 0, "overflow");
  expect_refused(object(entry("a", "[4611686018427387904]", 0, 0, "F32")), 0, "overflow");
}

TEST(Safetensors, NamesAreUniqueBoundedAndWithoutNul) {
  expect_refused(object(entry("a", "[1]", 0, 1), entry("a", "[1]", 1, 2)), 2, "duplicate name 'a'");
  expect_refused(object(entry("a", "[1]", 0, 1), entry("\\u0061", "[1]", 1, 2)), 2, "duplicate name 'a'");
  expect_refused(object(R"("__metadata__":{"x":"1","x":"2"})"), 0, "duplicate metadata key 'x'");
  expect_refused(object(R"("__metadata__":{})", R"("__metadata__":{})"), 0, "duplicate");
  expect_refused(object(R"("__metadata__":{"x":{}})"), 0, "metadata");
  expect_refused(object(entry("a\\u0000b", "[1]", 0, 1)), 1, "NUL");
  expect_refused(std::string("{}\0}", 4), 0, "zero byte");
  expect_refused(object(entry(std::string(513, 'n'), "[1]", 0, 1)), 1, "too long");
  EXPECT_TRUE(parse(object(entry(std::string(512, 'n'), "[1]", 0, 1)), 1).ok());
}

TEST(Safetensors, JsonItselfIsStrict) {
  expect_refused("", 0, "");
  expect_refused(" {}", 0, "does not start");
  expect_refused("{}\n", 0, "does not end");
  expect_refused("{}{}", 0, "JSON");
  expect_refused("[]", 0, "does not start");
  expect_refused(object("\"\xFF\":1"), 0, "JSON");
  expect_refused(object(R"("\ud800":1)"), 0, "JSON");
  expect_refused(object(fmt::format(R"("a":{}1{})", std::string(50'000, '['), std::string(50'000, ']'))), 0, "nested");
}

TEST(Safetensors, DataMustBeTiledExactly) {
  expect_refused(object(entry("a", "[4]", 0, 4), entry("b", "[4]", 5, 9)), 9, "hole");
  expect_refused(object(entry("a", "[4]", 0, 4), entry("b", "[4]", 3, 7)), 7, "overlap");
  expect_refused(object(entry("a", "[4]", 1, 5)), 5, "hole");
  expect_refused(object(entry("a", "[4]", 0, 4)), 5, "belong to nothing");
  expect_refused(object(entry("a", "[4]", 0, 4)), 3, "truncated");
  expect_refused(object(entry("a", "[4]", 4, 0)), 4, "reversed");
  expect_refused(object(entry("a", "[3]", 0, 4)), 4, "needs 3 bytes");
  expect_refused(object(entry("a", "[9223372036854775807]", 0, 9223372036854775807ull),
                        entry("b", "[9223372036854775807]", 9223372036854775807ull, 18446744073709551614ull)),
                 4, "truncated");
}

void expect_open_fails(const std::filesystem::path& path, std::initializer_list<std::string_view> parts) {
  const auto opened = Checkpoint::open(path);
  ASSERT_FALSE(opened.ok()) << path;
  EXPECT_EQ(opened.error().code, ErrorCode::model);
  for (const std::string_view part : parts)
    EXPECT_NE(opened.error().text().find(part), std::string::npos) << opened.error().text() << "\n  expected: " << part;
}

TEST(SafetensorsFiles, B1_FileCutAnywhereIsRefusedByName) {
  const test::TempFolder folder;
  const std::string whole = container(object(entry("a", "[64]", 0, 64), entry("b", "[64]", 64, 128)), 128);
  for (std::size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 13) {
    const auto path = folder.write("model.safetensors", std::string_view(whole).substr(0, size));
    expect_open_fails(path, {"model.safetensors"});
  }
  EXPECT_TRUE(Checkpoint::open(folder.write("model.safetensors", whole)).ok());
}

TEST(SafetensorsFiles, B1_UnfinishedDownloadIsRecognised) {
  const test::TempFolder folder;
  const std::string whole = container(object(entry("a", "[64]", 0, 64)), 64);
  folder.write("model.safetensors", std::string_view(whole).substr(0, whole.size() / 2));
  folder.write("model.safetensors.aria2", "x");
  expect_open_fails(folder.path() / "model.safetensors", {"model.safetensors.aria2", "not finished"});
}

// Any one flipped bit of the header leads to a refusal or to another valid header, never to tensors outside the file.
TEST(SafetensorsFiles, B1_FlippedHeaderBitsNeverPointOutsideTheFile) {
  const std::string whole =
      container(object(R"("__metadata__":{"k":"v"})", entry("a", "[2,4]", 0, 32, "F32") + "," + entry("b", "[3]", 32, 38, "BF16")), 38);
  for (std::size_t bit = 0; bit < 8 * (whole.size() - 38); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = parse_safetensors(bytes_of(damaged), damaged.size());
    if (!parsed.ok()) continue;
    for (const auto& [name, tensor] : parsed->tensors) EXPECT_LE(tensor.offset + tensor.bytes, damaged.size()) << name << ", bit " << bit;
  }
}

TEST(SafetensorsFiles, B1_DanglingLinkIsRefused) {
  const test::TempFolder folder;
  std::filesystem::create_symlink("blobs/not-there", folder.path() / "model.safetensors");
  expect_open_fails(folder.path() / "model.safetensors", {"model.safetensors"});
  expect_open_fails(folder.path(), {folder.path().string()});
}

TEST(SafetensorsFiles, GitLfsPointerIsNamed) {
  const test::TempFolder folder;
  folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123\n");
  expect_open_fails(folder.path(), {"model.safetensors", "Git LFS pointer", "git lfs pull"});
}

TEST(SafetensorsFiles, NotARegularFile) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder.path() / "model.safetensors");
  expect_open_fails(folder.path() / "absent.safetensors", {"absent.safetensors", "does not exist"});
  EXPECT_FALSE(TensorFile::open(folder.path() / "model.safetensors").ok());
}

// Three shards with one tensor of 4 bytes each.
class Shards : public ::testing::Test {
 protected:
  static std::string shard(int i) { return fmt::format("model-{:05}-of-00003.safetensors", i); }
  void write_shard(int i, std::string_view tensor) { folder_.write(shard(i), container(object(entry(tensor, "[4]", 0, 4)), 4)); }
  void write_index(std::string_view weight_map, std::string_view metadata = R"({"total_size":12})") {
    folder_.write("model.safetensors.index.json", fmt::format(R"({{"metadata":{},"weight_map":{}}})", metadata, weight_map));
  }
  static std::string usual_map() { return fmt::format(R"({{"a":"{}","b":"{}","c":"{}"}})", shard(1), shard(2), shard(3)); }
  void SetUp() override {
    write_shard(1, "a");
    write_shard(2, "b");
    write_shard(3, "c");
    write_index(usual_map());
  }
  test::TempFolder folder_;
};

TEST_F(Shards, AreJoinedAndRead) {
  const auto opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.error().text();
  EXPECT_TRUE(opened->sharded());
  EXPECT_EQ(opened->names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(opened->tensor_bytes(), 12u);
  std::vector<std::uint8_t> bytes(4);
  ASSERT_TRUE(opened->read(*opened->find("c"), bytes).ok());
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 1, 2, 3}));
}

TEST_F(Shards, B2_MissingOnesAreListedAllAtOnce) {
  std::filesystem::remove(folder_.path() / shard(1));
  std::filesystem::remove(folder_.path() / shard(3));
  expect_open_fails(folder_.path(), {"2 of 3", shard(1), shard(3)});
}

TEST_F(Shards, B2_DanglingLinkCountsAsMissing) {
  std::filesystem::remove(folder_.path() / shard(2));
  std::filesystem::create_symlink("../blobs/0123", folder_.path() / shard(2));
  expect_open_fails(folder_.path(), {"1 of 3", shard(2), "dangling"});
}

TEST_F(Shards, LinksToRealFilesAreFollowed) {
  std::filesystem::rename(folder_.path() / shard(2), folder_.path() / "blob");
  std::filesystem::create_symlink("blob", folder_.path() / shard(2));
  EXPECT_TRUE(Checkpoint::open(folder_.path()).ok());
}

TEST_F(Shards, B1_CutShardIsNamed) {
  folder_.write(shard(2), container(object(entry("b", "[4]", 0, 4)), 2));
  expect_open_fails(folder_.path(), {shard(2), "truncated"});
}

TEST_F(Shards, NamesMustBePlain) {
  for (const char* name :
       {"../model-00001-of-00003.safetensors", "sub/x.safetensors", "/etc/passwd", "..", ".", "", "a\\\\b", "a\\u0000b"}) {
    write_index(fmt::format(R"({{"a":"{}"}})", name));
    expect_open_fails(folder_.path(), {"plain file name"});
  }
  write_index(R"({"a":7})");
  expect_open_fails(folder_.path(), {"not a string"});
}

TEST_F(Shards, TensorInTwoShardsIsRefused) {
  write_shard(3, "a");
  expect_open_fails(folder_.path(), {"'a'", "two shards", shard(3)});
}

TEST_F(Shards, IndexAndShardsMustAgree) {
  write_index(fmt::format(R"({{"a":"{0}","b":"{0}","c":"{1}"}})", shard(1), shard(3)));
  expect_open_fails(folder_.path(), {"'b'", shard(1)});
  write_index(fmt::format(R"({{"a":"{}","b":"{}","c":"{}"}})", shard(2), shard(1), shard(3)));
  expect_open_fails(folder_.path(), {"should be in"});
  folder_.write(shard(1), container(object(entry("a", "[4]", 0, 4), entry("extra", "[4]", 4, 8)), 8));
  write_index(usual_map());
  expect_open_fails(folder_.path(), {"'extra'", "not listed"});
}

TEST_F(Shards, TotalSizeMustAgree) {
  write_index(usual_map(), R"({"total_size":13})");
  expect_open_fails(folder_.path(), {"13", "12", "total_size"});
  write_index(usual_map(), "{}");
  EXPECT_TRUE(Checkpoint::open(folder_.path()).ok());
}

TEST_F(Shards, IndexMustBeJsonWithAWeightMap) {
  for (const char* text : {"", "{", "[]", "{}", R"({"weight_map":[]})", "\xFF"}) {
    folder_.write("model.safetensors.index.json", text);
    expect_open_fails(folder_.path(), {"model.safetensors.index.json", "weight_map"});
  }
}

}  // namespace
}  // namespace tritium
