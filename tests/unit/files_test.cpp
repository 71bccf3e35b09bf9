// Reading whole files, and files that get their name only when they are complete.
#include "base/files.h"
#include "unit/temp_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <set>

namespace tritium {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path())) out.insert(entry.path().filename().string());
    return out;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    auto text = read_file(path(name));
    return text.ok() ? *text : text.error().text();
  }

  test::TempFolder folder_;
};

using ReadFile = Files;
using Atomic = Files;

TEST_F(ReadFile, GivesEveryByteUpToTheLimit) {
  const std::string bytes("\0\n\xff text", 8);
  folder_.write("file", bytes);
  EXPECT_EQ(content("file"), bytes);
  EXPECT_TRUE(read_file(path("file"), 8).ok());
  const auto refused = read_file(path("file"), 7);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("8 bytes, more than the limit of 7"), std::string::npos) << refused.error().text();
  folder_.write("empty", "");
  EXPECT_EQ(content("empty"), "");
}

TEST_F(ReadFile, NamesWhatCannotBeRead) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const auto& [name, reason] :
       {std::pair("missing", "No such file"), std::pair(".", "directory"), std::pair("pipe", "Invalid argument")}) {
    const auto refused = read_file(path(name));
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << refused.error().text();
    EXPECT_NE(refused.error().message.find(reason), std::string::npos) << refused.error().text();
  }
}

TEST_F(Atomic, TheNameAppearsWithTheWholeContent) {
  folder_.write("out.mp4", "before");
  {
    auto file = AtomicFile::create(path("out.mp4"));
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ(file->temporary_path().extension(), ".mp4") << "writers look at it";
    EXPECT_EQ(file->temporary_path().parent_path(), folder_.path());
    ASSERT_TRUE(file->write("after").ok());
    EXPECT_EQ(content("out.mp4"), "before");
    ASSERT_TRUE(file->commit().ok());
    EXPECT_EQ(content("out.mp4"), "after");
  }
  EXPECT_EQ(names(), std::set<std::string>{"out.mp4"});
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(fs::status(path("out.mp4")).permissions(), fs::perms(0666 & ~mask)) << "as any other new file";
}

TEST_F(Atomic, WithoutCommitNothingIsLeft) {
  {
    auto file = AtomicFile::create(path("out.mp4"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("half").ok());
    EXPECT_EQ(names().size(), 1u);
    AtomicFile moved = std::move(*file);
    ASSERT_TRUE(moved.write(" more").ok());
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(Atomic, AnotherNameCanBeGivenAtTheEnd) {
  auto file = AtomicFile::create(path("out.mp4"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->commit_as(path("out.rejected.mp4")).ok());
  EXPECT_EQ(names(), std::set<std::string>{"out.rejected.mp4"});
}

TEST_F(Atomic, PlacesThatCannotBeWrittenToAreNamed) {
  folder_.write("file", "");
  fs::create_directory(path("folder"));
  for (const char* name : {"missing/out", "file/out", "folder"}) {
    const auto refused = AtomicFile::create(path(name));
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::failure);
    EXPECT_NE(refused.error().message.find(path(name).string()), std::string::npos) << refused.error().text();
  }
  EXPECT_EQ(names(), (std::set<std::string>{"file", "folder"}));
}

// What a killed writer left is not locked any more. Files of others, and of writers at work, stay.
TEST_F(Atomic, OnlyAbandonedFilesOfTheSameTargetAreRemoved) {
  const std::set<std::string> others = {".out.backup.mp4",        ".out.tritium-abcdef.mkv",  ".other.tritium-abcdef.mp4",
                                        "out.tritium-abcdef.mp4", ".out.tritium-abcdefg.mp4", ".out.tritium-abcde.mp4",
                                        ".out.tritium-123456.mp4"};
  for (const std::string& name : others) folder_.write(name, "x");
  folder_.write(".out.tritium-abcdef.mp4", "x");
  const int lock = ::open(path(".out.tritium-123456.mp4").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  auto running = AtomicFile::create(path("out.mp4"));
  ASSERT_TRUE(running.ok());
  {
    auto second = AtomicFile::create(path("out.mp4"));
    ASSERT_TRUE(second.ok());
    EXPECT_TRUE(fs::exists(running->temporary_path()));
    EXPECT_NE(second->temporary_path(), running->temporary_path());
    ASSERT_TRUE(second->commit().ok());
  }
  ASSERT_TRUE(running->commit().ok()) << "the last one wins";
  ::close(lock);
  std::set<std::string> expected = others;
  expected.insert("out.mp4");
  EXPECT_EQ(names(), expected);
}

TEST_F(Atomic, APlaceInTheWorkingFolderNeedsNoPath) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const auto written = write_file_atomically("out.json", "{}");
  fs::current_path(before);
  ASSERT_TRUE(written.ok()) << written.error().text();
  EXPECT_EQ(content("out.json"), "{}");
}

TEST_F(Atomic, AProcessThatEndsAtOnceCanRemoveItsUnfinishedFiles) {
  auto finished = AtomicFile::create(path("finished"));
  ASSERT_TRUE(finished.ok() && finished->commit().ok());
  std::vector<AtomicFile> open;
  for (int i = 0; i < 3; ++i) {
    auto file = AtomicFile::create(path("out" + std::to_string(i)));
    ASSERT_TRUE(file.ok());
    open.push_back(std::move(*file));
  }
  EXPECT_EQ(names().size(), 4u);
  remove_temporary_files();
  EXPECT_EQ(names(), std::set<std::string>{"finished"});
}

// More than have a place in the list of unfinished files: they work all the same.
TEST_F(Atomic, ManyAtATime) {
  std::vector<AtomicFile> open;
  for (int i = 0; i < 40; ++i) {
    auto file = AtomicFile::create(path(std::to_string(i)));
    ASSERT_TRUE(file.ok());
    open.push_back(std::move(*file));
  }
  for (AtomicFile& file : open) ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(names().size(), 40u);
}

}  // namespace
}  // namespace tritium
