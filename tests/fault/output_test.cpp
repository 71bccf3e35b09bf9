// Places that cannot be written to, and disks that fill up while writing.
#include "support/build.h"
#include "support/tritium_program.h"

#include <sys/stat.h>
#include <unistd.h>

namespace tritium::test {
namespace {

const Arguments kQuick = {"generate", "a red circle", "--frames", "5", "--steps", "1", "--progress=json"};
const Arguments kLonger = {"generate", "a red circle", "--frames", "39", "--steps", "1"};  // 208 kB of sound as WAV

void expect_parts(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : parts)
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "'" << part << "' is not in: " << outcome.err;
}

class BadOutput : public TritiumProgram {
 protected:
  // Found out before anything is computed.
  void expect_at_once(const Arguments& arguments, int status, const std::vector<std::string>& parts) const {
    const auto before = files();
    const Outcome outcome = tritium(kQuick + arguments);
    expect_parts(outcome, status, parts);
    EXPECT_EQ(outcome.err.find("\"stage\""), std::string::npos) << "work was begun: " << outcome.err;
    EXPECT_EQ(files(), before) << outcome.err;
  }
};

TEST_F(BadOutput, AFolderThatCannotTakeTheVideo) {
  folder_.write("file", "");
  expect_at_once({"-o", "no_such_folder/out.mp4"}, 1, {"no_such_folder/out.mp4", "No such file or directory"});
  expect_at_once({"-o", "file/out.mp4"}, 1, {"file/out.mp4", "Not a directory"});
  std::filesystem::create_directory(path("folder.mp4"));
  expect_at_once({"-o", "folder.mp4"}, 1, {"folder.mp4", "directory"});
  expect_at_once({"-o", "out.avi"}, 2, {"output:", "out.avi", ".mp4"});
  expect_at_once({"-o", "out"}, 2, {"output:", "'out'", ".mp4"});
  expect_at_once({"-o", std::string(300, 'x') + ".mp4"}, 1, {"name too long"});
  std::filesystem::create_directory(path("locked"));
  ::chmod(path("locked").c_str(), 0500);
  if (::geteuid() != 0) expect_at_once({"-o", "locked/out.mp4"}, 1, {"locked/out.mp4", "Permission denied"});  // nothing is locked to root
}

TEST_F(BadOutput, APlaceThatCannotTakeTheExtras) {
  folder_.write("file", "");
  expect_at_once({"-o", "out.mp4", "--wav", "no_such_folder/out.wav"}, 1, {"wav:", "no_such_folder/out.wav"});
  expect_at_once({"-o", "out.mp4", "--latents", "file/out.safetensors"}, 1, {"latents:", "file/out.safetensors"});
  expect_at_once({"-o", "out.mp4", "--frames-dir", "file"}, 1, {"frames_dir:", "file", "Not a directory"});
  expect_at_once({"-o", "out.mp4", "--frames-dir", "file/frames"}, 1, {"frames_dir:", "Not a directory"});
  expect_at_once({"-o", "out.mp4", "--latents", "./out.mp4"}, 2, {"latents:", "the name of the video too"});
}

// The limit on file sizes stands for a disk that fills up while the video is written.
TEST_F(BadOutput, AFileThatMayNotGrow) {
  Command limited = command(kQuick + Arguments{"-o", "out.mp4"});
  limited.file_size_limit = 4096;
  expect_parts(run(limited), 4, {"'out.mp4'", "File too large", "free some space"});
  EXPECT_EQ(files(), std::set<std::string>{});
}

// The video fits, what comes with it does not: then there is no video either.
TEST_F(BadOutput, AnExtraThatMayNotGrowTakesTheVideoBack) {
  Command limited = command(kLonger + Arguments{"-o", "out.mp4", "--wav", "out.wav", "--latents", "out.safetensors"});
  limited.file_size_limit = 150000;  // enough for the video and the latents
  expect_parts(run(limited), 4, {"'out.wav'", "File too large"});
  EXPECT_EQ(files(), std::set<std::string>{});
}

// A file system of its own, where the system lets the test make one: its files are gone with it, so the listing is printed from inside.
class FullDisk : public TritiumProgram {
 protected:
  // Empty when no file system can be mounted here.
  [[nodiscard]] std::optional<Outcome> on_small_disk(const std::string& size, const Arguments& arguments) const {
    constexpr const char* kScript =
        "mount -t tmpfs -o size=$1 tmpfs disk || exit 99; shift; \"$@\"; status=$?; echo files: $(ls -A disk | grep -v '^frame') >&2; exit "
        "$status";
    const bool root = ::geteuid() == 0;
    Command command;
    command.arguments = {"/usr/bin/unshare", root ? "-m" : "-rm", "/bin/sh", "-c", kScript, "sh", size, tritium_binary()};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.folder = folder();
    std::filesystem::create_directory(path("disk"));
    const Outcome outcome = run(command);
    const bool mounted = outcome.err.find("files:") != std::string::npos;
    if (!mounted) std::printf("no file system could be mounted (%s); the limit on file sizes tests the same\n", outcome.err.c_str());
    return mounted ? std::optional(outcome) : std::nullopt;
  }
};

TEST_F(FullDisk, TooLittleSpaceIsFoundAtOnce) {
  const auto outcome = on_small_disk("64k", kQuick + Arguments{"-o", "disk/out.mp4"});
  if (!outcome) return;
  expect_parts(*outcome, 4, {"output:", "'disk/out.mp4'", "KiB free", "may need", "files:\n"});
  EXPECT_EQ(outcome->err.find("\"stage\""), std::string::npos) << outcome->err;
}

TEST_F(FullDisk, SpaceThatRunsOutLeavesNoVideo) {
  const auto outcome = on_small_disk("320k", kLonger + Arguments{"-o", "disk/out.mp4", "--frames-dir", "disk", "--wav", "disk/out.wav"});
  if (!outcome) return;
  expect_parts(*outcome, 4, {"No space left on device", "free some space", "files:\n"});
}

}  // namespace
}  // namespace tritium::test
