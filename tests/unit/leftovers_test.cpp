// What is removed behind a process that died in the middle of a request, and what is not.
#include "pipeline/leftovers.h"

#include "base/files.h"
#include "unit/temp_folder.h"

#include <gtest/gtest.h>
#include <set>

namespace tritium {
namespace {

namespace fs = std::filesystem;

class Leftovers : public ::testing::Test {
 protected:
  [[nodiscard]] OutputOptions output() const {
    const fs::path at = folder_.path();
    return {at / "out.mp4", at / "frames", at / "out.wav", at / "out.safetensors"};
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      if (!entry.is_directory()) out.insert(entry.path().filename().string());
    return out;
  }
  // As AtomicFile does it: another file takes the name.
  void replace(const std::string& name) const {
    const auto written = write_file_atomically(folder_.path() / name, "new");
    ASSERT_TRUE(written.ok()) << written.error().text();
  }

  test::TempFolder folder_;
};

TEST_F(Leftovers, TemporaryFilesOfThisRequestOnly) {
  const OutputState before(output());
  fs::create_directory(folder_.path() / "frames");
  for (const char* name : {".out.tritium-abcdef.mp4", ".out.mp4.tritium-abcdef.json", ".out.tritium-ABCDEF.wav",
                           ".out.tritium-a1b2c3.safetensors", "frames/.frame_00007.tritium-abcdef.png"})
    folder_.write(name, "half");
  const std::set<std::string> others = {".other.tritium-abcdef.mp4", ".out.tritium-abcde.mp4", ".out.tritium-abcdefg.mp4",
                                        ".out.backup.mp4",           "frame_00001.png",        ".frame_.png",
                                        ".other.tritium-abcdef.png"};
  for (const std::string& name : others) folder_.write(name.ends_with("png") ? "frames/" + name : name, "somebody's");
  before.remove_leftovers(false);
  EXPECT_EQ(files(), others);
}

TEST_F(Leftovers, ThoseOfALivingWriterStay) {
  auto writer = AtomicFile::create(folder_.path() / "out.mp4");
  ASSERT_TRUE(writer.ok());
  OutputState(output()).remove_leftovers(true);
  EXPECT_EQ(files(), std::set<std::string>{writer->temporary_path().filename().string()});
}

TEST_F(Leftovers, NamesThatWereGivenGoWithTheRest) {
  folder_.write("out.wav", "old");
  folder_.write("out.safetensors", "old");
  const OutputState before(output());
  for (const char* name : {"out.wav", "out.mp4.json", "out.mp4"}) replace(name);
  before.remove_leftovers(false);
  EXPECT_EQ(files(), (std::set<std::string>{"out.wav", "out.safetensors", "out.mp4.json", "out.mp4"})) << "nothing was being written";
  before.remove_leftovers(true);
  EXPECT_EQ(files(), std::set<std::string>{"out.safetensors"}) << "what was not touched is not of this request";
}

TEST_F(Leftovers, OfARequestWithoutAName) {
  folder_.write(".tritium-abcdef", "");
  OutputState(OutputOptions{}).remove_leftovers(true);
  EXPECT_EQ(files().size(), 1u);
}

}  // namespace
}  // namespace tritium
