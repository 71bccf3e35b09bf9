// Ctrl-C, termination and sudden death of the program.
#include "media/reader.h"
#include "support/build.h"
#include "support/tritium_program.h"

#include <csignal>
#include <fstream>

namespace tritium::test {
namespace {

// Far longer than any of these tests waits: it has to be ended.
const Arguments kEndless = {"generate", "a red circle",    "--frames", "22",     "--steps", "1000", "--seed",
                            "1",        "--progress=json", "-o",       "out.mp4"};
const Arguments kQuick = {"generate", "a red circle", "--frames", "5", "--steps", "1", "--seed", "1", "-o", "out.mp4"};

class Signals : public TritiumProgram {
 protected:
  void expect_interrupted(Process& process) const {
    const Outcome outcome = process.finish();
    EXPECT_EQ(outcome.status, 130) << outcome.err;
    EXPECT_NE(outcome.err.find("tritium: interrupted during "), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(files(), std::set<std::string>{});
  }
  // The name of the unfinished video; empty when there is none.
  [[nodiscard]] std::string temporary() const {
    for (const std::string& name : files())
      if (name.starts_with(".out.tritium-") && name.ends_with(".mp4")) return name;
    return "";
  }
};

TEST_F(Signals, EachOneEndsTheWorkAndCleansUp) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    for (const char* stage : {"\"stage\":\"load\"", "\"stage\":\"denoise\""}) {
      Process process(command(kEndless));
      ASSERT_TRUE(process.wait_for_error_text(stage)) << process.error_text();
      process.send(signal);
      expect_interrupted(process);
    }
}

// Weights that need no conversion are used where they lie in the file.
TEST_F(Signals, WeightsThatAreCutShortWhileInUse) {
  ASSERT_EQ(tritium({"convert", TRITIUM_SOURCE_DIR "/models/demo", "model", "--to", "f32"}).status, 0);
  Process process(command(kEndless + Arguments{"-m", "model"}));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\"")) << process.error_text();
  for (const auto& entry : std::filesystem::directory_iterator(path("model/diffusion_models")))
    std::filesystem::resize_file(entry.path(), 4096);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("became shorter"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("out.mp4")));
}

TEST_F(Signals, WeightsThatAreWrittenOverWhileInUse) {
  ASSERT_EQ(tritium({"convert", TRITIUM_SOURCE_DIR "/models/demo", "model", "--to", "f32"}).status, 0);
  Process process(command(
      {"generate", "a red circle", "--frames", "22", "--steps", "60", "--seed", "1", "--progress=json", "-o", "out.mp4", "-m", "model"}));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\"")) << process.error_text();
  for (const auto& entry : std::filesystem::directory_iterator(path("model/diffusion_models"))) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200000);
    file << "something else";
  }
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_NE(outcome.err.find("was changed while it was in use"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("out.mp4")));
}

// Late stages are short: a signal may come too late, and then the result must be whole.
TEST_F(Signals, InLateStages) {
  const Arguments longer = {"generate", "a red circle",    "--frames", "56",      "--steps",      "1",     "--seed",
                            "1",        "--progress=json", "-o",       "out.mp4", "--frames-dir", "frames"};
  for (const char* stage : {"\"stage\":\"video\"", "\"stage\":\"audio\"", "\"stage\":\"write\""}) {
    Process process(command(longer));
    ASSERT_TRUE(process.wait_for_error_text(stage)) << process.error_text();
    process.send(SIGINT);
    const Outcome outcome = process.finish();
    EXPECT_EQ(temporary(), "");
    if (outcome.status == 0) {
      EXPECT_TRUE(read_clip(path("out.mp4")).ok());
    } else {
      EXPECT_EQ(outcome.status, 130) << outcome.err;
      EXPECT_FALSE(std::filesystem::exists(path("out.mp4")));
      EXPECT_FALSE(std::filesystem::exists(path("out.mp4.json")));
    }
    for (const std::string& name : files()) std::filesystem::remove_all(path(name));
  }
}

// Both signals wait while the program is stopped, so the second surely comes before the first has ended it.
TEST_F(Signals, ASecondOneEndsTheProgramAtOnce) {
  Process process(command(kEndless));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\""));
  EXPECT_NE(temporary(), "");
  for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) process.send(signal);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(files(), std::set<std::string>{});
}

TEST_F(Signals, AnIgnoredOneStaysIgnored) {
  Command command = this->command({});
  command.arguments = {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", tritium_binary()};
  command.arguments.insert(command.arguments.end(), kEndless.begin(), kEndless.end());
  Process process(command);
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\""));
  process.send(SIGHUP);
  const std::string later = "\"stage\":\"denoise\",\"step\":";  // it goes on: wait for another report
  const auto reports = [&] {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = process.error_text().find(later, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (const std::size_t before = reports(); reports() == before;) ASSERT_TRUE(process.wait_for_more_error_text());
  process.send(SIGINT);
  expect_interrupted(process);
}

TEST_F(Signals, AReaderThatGoesAwayDoesNotEndTheWork) {
  Command command = this->command({});
  command.arguments = {"/bin/sh", "-c", "\"$@\" 2>&1 | true", "sh", tritium_binary()};
  command.arguments.insert(command.arguments.end(), kQuick.begin(), kQuick.end());
  (void)run(command);  // the status is that of "true"; the shell waits for both
  EXPECT_TRUE(read_clip(path("out.mp4")).ok());
  EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json"}));
}

TEST_F(Signals, AKilledRunLeavesNoVideoAndTheNextOneTidiesUp) {
  {
    Process process(command(kEndless));
    ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\""));
    process.send(SIGKILL);
    EXPECT_EQ(process.finish().status, 128 + SIGKILL);
  }
  EXPECT_EQ(files(), std::set<std::string>{temporary()}) << "the unfinished video has another name";
  folder_.write(".out.backup.mp4", "somebody else's");
  folder_.write(".other.tritium-abcdef.mp4", "of another video");
  (void)succeed(kQuick);
  EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json", ".out.backup.mp4", ".other.tritium-abcdef.mp4"}));
}

TEST_F(Signals, ARunningWriterOfTheSameVideoIsLeftAlone) {
  Process first(command(kEndless));
  ASSERT_TRUE(first.wait_for_error_text("\"stage\":\"denoise\""));
  const std::string unfinished = temporary();
  ASSERT_NE(unfinished, "");
  (void)succeed(kQuick);
  EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json", unfinished}));
  first.send(SIGINT);
  EXPECT_EQ(first.finish().status, 130);
  EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json"}));
}

}  // namespace
}  // namespace tritium::test
