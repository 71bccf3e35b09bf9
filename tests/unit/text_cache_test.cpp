// Text rows kept in memory and on disk.
#include "pipeline/text_cache.h"
#include "unit/temp_folder.h"

#include <gtest/gtest.h>
#include <cstring>
#include <fstream>

namespace tritium {
namespace {

namespace fs = std::filesystem;

TextCache::Rows rows(float first, std::size_t tokens = 3, std::size_t width = 8) {
  TextCache::Rows out;
  for (std::size_t i = 0; i < tokens * width; ++i) out.text.push_back(first + 0.1f * static_cast<float>(i));
  out.text[0] = -0.0f;
  for (std::size_t i = 0; i < tokens; ++i) out.tags.push_back(i == 1 ? Modality::video : Modality::text);
  return out;
}

void expect_same(const std::optional<TextCache::Rows>& got, const TextCache::Rows& want) {
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(got->text.size(), want.text.size());
  EXPECT_EQ(std::memcmp(got->text.data(), want.text.data(), want.text.size() * sizeof(float)), 0);
  EXPECT_EQ(got->tags, want.tags);
}

TEST(TextCache, TheOneUnusedLongestGivesWay) {
  TextCache cache({}, 2);
  cache.keep("a", rows(1));
  cache.keep("b", rows(2));
  expect_same(cache.find("a"), rows(1));
  cache.keep("c", rows(3));
  EXPECT_FALSE(cache.find("b").has_value());
  expect_same(cache.find("a"), rows(1));
  expect_same(cache.find("c"), rows(3));
}

TEST(TextCache, AnotherProcessFindsTheSameBits) {
  const test::TempFolder folder;
  TextCache(folder.path() / "cache").keep("key", rows(5));
  TextCache other(folder.path() / "cache");
  expect_same(other.find("key"), rows(5));
  EXPECT_FALSE(other.find("another").has_value());
  EXPECT_EQ(fs::status(folder.path() / "cache").permissions() & fs::perms::others_all, fs::perms::none);
}

TEST(TextCache, DamagedFilesCountAsAbsent) {
  const test::TempFolder folder;
  TextCache(folder.path()).keep("key", rows(5));
  const fs::path file = folder.path() / "key.safetensors";
  const auto size = fs::file_size(file);
  for (const std::uint64_t at : {size - 1, size - 40, std::uint64_t{3}, size / 2}) {
    TextCache(folder.path()).keep("key", rows(5));
    {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(out.get() ^ 0x10);
      out.seekp(static_cast<std::streamoff>(at));
      out.put(byte);
    }
    EXPECT_FALSE(TextCache(folder.path()).find("key").has_value()) << at;
    fs::remove(file);
  }
  TextCache(folder.path()).keep("key", rows(5));
  fs::resize_file(file, size / 2);
  EXPECT_FALSE(TextCache(folder.path()).find("key").has_value());
}

TEST(TextCache, TheFolderStaysBelowItsLimit) {
  const test::TempFolder folder;
  TextCache cache(folder.path(), 16, 20000);
  for (int i = 0; i < 12; ++i) cache.keep("key" + std::to_string(i), rows(static_cast<float>(i), 10, 100));
  std::uint64_t sum = 0;
  for (const auto& file : fs::directory_iterator(folder.path())) sum += file.file_size();
  EXPECT_LE(sum, 20000u);
  EXPECT_TRUE(TextCache(folder.path()).find("key11").has_value());
}

TEST(TextCache, AFolderThatCannotBeWrittenIsNoError) {
  const test::TempFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  TextCache cache(folder.path() / "file");
  cache.keep("key", rows(1));
  expect_same(cache.find("key"), rows(1));
}

}  // namespace
}  // namespace tritium
