// GGUF files on disk: cut, renamed, split, mistaken for something else. B1, B2: field cases of the loader.
#include "unit/gguf_file.h"
#include "unit/temp_folder.h"
#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tritium {
namespace {

using test::GgufFile;
using test::GgufValue;
using test::little_endian;

constexpr std::uint32_t kF32 = 0;

// One F32 tensor "a" [2, 3].
GgufFile small() {
  GgufFile file;
  file.tensor("a", {3, 2}, kF32, 0);
  file.data = std::string(24, 'x');
  return file;
}

void expect_open_fails(const std::filesystem::path& path, std::initializer_list<std::string_view> parts) {
  const auto opened = Checkpoint::open(path);
  ASSERT_FALSE(opened.ok()) << path;
  EXPECT_EQ(opened.error().code, ErrorCode::model);
  for (const std::string_view part : parts)
    EXPECT_NE(opened.error().text().find(part), std::string::npos) << opened.error().text() << "\n  expected: " << part;
}

TEST(GgufFiles, TheContentDecidesNotTheName) {
  const test::TempFolder folder;
  const auto checkpoint = Checkpoint::open(folder.write("weights.safetensors", small().bytes()));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().text();
  EXPECT_EQ(checkpoint->files().front().container(), Container::gguf);
  ASSERT_NE(checkpoint->find("a"), nullptr);
  EXPECT_FALSE(checkpoint->sharded());
  const std::string safetensors = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_TRUE(Checkpoint::open(folder.write("weights.gguf", little_endian<std::uint64_t>(safetensors.size()) + safetensors + "x")).ok());
}

TEST(GgufFiles, B1_DamagedFilesAreRefusedByName) {
  const test::TempFolder folder;
  const std::string whole = small().bytes();
  for (std::size_t size = 0; size < whole.size(); size += 5)
    expect_open_fails(folder.write("model.gguf", std::string_view(whole).substr(0, size)), {"model.gguf", "GGUF"});
  folder.write("model.gguf.part", "x");
  expect_open_fails(folder.path() / "model.gguf", {"model.gguf.part", "not finished"});
}

TEST(GgufFiles, StrangersAreNamed) {
  const test::TempFolder folder;
  using namespace std::string_literals;
  expect_open_fails(folder.write("a.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), {"a.gguf", "Git LFS"});
  expect_open_fails(folder.write("a.pt", "PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00"s), {"a.pt", "zip archive", "pickle", ".safetensors"});
  expect_open_fails(folder.write("a.bin", "\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s), {"a.bin", "pickle", "run any program"});
  expect_open_fails(folder.write("a.safetensors", "<!DOCTYPE html><html>"), {"a.safetensors", "web page"});
}

TEST(GgufFiles, OneFileOfAFolderIsFound) {
  const test::TempFolder folder;
  folder.write("some-Q4_K.gguf", small().bytes());
  folder.write("readme.md", "x");
  ASSERT_TRUE(Checkpoint::open(folder.path()).ok());
  folder.write("other.gguf", small().bytes());
  expect_open_fails(folder.path(), {"2 candidates"});
}

// A model in three pieces, one tensor each.
class GgufPieces : public ::testing::Test {
 protected:
  static std::string name(int i) { return fmt::format("model-Q8-{:05}-of-00003.gguf", i); }
  static GgufFile piece(int i, std::uint16_t count = 3) {
    GgufFile file;
    file.tensor(fmt::format("t{}", i), {2}, kF32, 0);
    file.data = std::string(8, 'x');
    file.pair("split.no", GgufValue::u16, little_endian(static_cast<std::uint16_t>(i - 1)));
    file.pair("split.count", GgufValue::u16, little_endian(count));
    return file;
  }
  void write(std::initializer_list<int> pieces) {
    for (const int i : pieces) folder_.write(name(i), piece(i).bytes());
  }
  test::TempFolder folder_;
};

TEST_F(GgufPieces, AnyPieceStandsForTheWhole) {
  write({1, 2, 3});
  for (const auto& path : {folder_.path() / name(1), folder_.path() / name(3), folder_.path()}) {
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    EXPECT_EQ(opened->files().size(), 3u);
    EXPECT_EQ(opened->names(), (std::vector<std::string>{"t1", "t2", "t3"}));
    EXPECT_FALSE(opened->sharded()) << "no index file";
  }
}

TEST_F(GgufPieces, B2_MissingPiecesAreListedTogether) {
  write({2});
  expect_open_fails(folder_.path() / name(2), {"2 of the 3", name(1), name(3)});
}

TEST_F(GgufPieces, RenamedPiecesAreRefused) {
  write({1, 3});
  folder_.write(name(2), piece(1).bytes());
  expect_open_fails(folder_.path() / name(1), {name(2), "it is file 1"});
  folder_.write(name(2), piece(2, 4).bytes());
  expect_open_fails(folder_.path() / name(1), {name(2), "one of 4 files"});
  expect_open_fails(folder_.write("alone.gguf", piece(1).bytes()), {"alone.gguf", "one of 3 files"});
}

TEST_F(GgufPieces, ATensorInTwoPiecesIsRefused) {
  write({1, 2});
  GgufFile third = piece(3);
  third.tensors[0] = piece(1).tensors[0];
  folder_.write(name(3), third.bytes());
  expect_open_fails(folder_.path(), {"t1", "two shards", name(3)});
}

}  // namespace
}  // namespace tritium
