// The whole server is killed, at every stage and at random moments, with jobs waiting. After the restarts every job is finished, once, with
// the bits of a run that nobody disturbed.
#include "base/files.h"
#include "media/reader.h"
#include "support/build.h"
#include "support/process.h"
#include "unit/temp_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

constexpr int kJobs = 5, kSteps = 12;

struct Line {
  std::string state, video;
  int attempt = 0;
};

class KilledServer : public ::testing::Test {
 protected:
  // Once for all tests.
  static void SetUpTestSuite() {
    undisturbed_folder_ = new MemoryFolder;
    undisturbed_ = lines(run(command(undisturbed_folder_->path() / "data")));
  }
  static void TearDownTestSuite() { delete undisturbed_folder_; }

  [[nodiscard]] Command command() const { return command(folder_.path() / "data"); }
  [[nodiscard]] static Command command(const fs::path& data) {
    Command out;
    out.arguments = {TRITIUM_JOB_SERVER,    data.string(),         tritium_binary(), TRITIUM_SOURCE_DIR "/models/demo",
                     std::to_string(kJobs), std::to_string(kSteps)};
    out.environment["GOMP_SPINCOUNT"] = "1000";
    return out;
  }

  static std::map<std::string, Line> lines(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, Line> out;
    std::istringstream in(outcome.out);
    std::string id;
    Line line;
    while (in >> id >> line.state >> line.attempt && std::getline(in >> std::ws, line.video)) out[id] = line;
    EXPECT_EQ(out.size(), static_cast<std::size_t>(kJobs)) << outcome.out;
    return out;
  }

  // What must be the same in every run: the middle picture as it was before it was compressed, and measurements of all pictures and
  // samples.
  static std::string bits(const fs::path& video) {
    const auto sidecar = read_file(fs::path(video) += ".json"), thumbnail = read_file(video.parent_path() / "thumbnail.jpg");
    EXPECT_TRUE(sidecar.ok() && thumbnail.ok()) << video;
    if (!sidecar.ok() || !thumbnail.ok()) return "";
    return nlohmann::json::parse(*sidecar)["guard"].dump() + *thumbnail;
  }

  // All finished and complete, with the bits of an undisturbed run.
  static void expect_whole(const std::map<std::string, Line>& jobs) {
    for (const auto& [id, line] : jobs) {
      EXPECT_EQ(line.state, "completed") << id;
      const auto media = probe_media(line.video);
      ASSERT_TRUE(media.ok()) << id << ": " << media.error().text();
      EXPECT_EQ(media->video->frames, 22) << id;
      EXPECT_TRUE(media->audio.has_value()) << id;
      EXPECT_EQ(media->moov_before_mdat, true) << id;
      EXPECT_TRUE(bits(line.video) == bits(undisturbed_.at(id).video)) << id << " differs from an undisturbed run";
      // Nothing of any attempt is left beside the result.
      for (const auto& entry : fs::directory_iterator(fs::path(line.video).parent_path().parent_path().parent_path())) {
        const std::string name = entry.path().filename().string();
        EXPECT_TRUE(name == "inputs" || name == "results" || name == "job.json") << entry.path();
      }
    }
  }

  // Ends of jobs in the words of one server. Each job may come to its end in one server only.
  void note_ends(const std::string& words) {
    std::istringstream in(words);
    for (std::string line; std::getline(in, line);)
      for (const char* state : {" completed", " failed", " cancelled"})
        if (line.ends_with(state)) ++ends_[line.substr(0, line.find(' '))];
  }
  void expect_single_ends() const {
    for (const auto& [id, count] : ends_) EXPECT_LE(count, 1) << id << " ended more than once";
  }

  static MemoryFolder* undisturbed_folder_;
  static std::map<std::string, Line> undisturbed_;
  MemoryFolder folder_;
  std::map<std::string, int> ends_;
};
MemoryFolder* KilledServer::undisturbed_folder_ = nullptr;
std::map<std::string, Line> KilledServer::undisturbed_;

TEST_F(KilledServer, A17_AtEveryStage) {
  for (const char* stage : {"submitted", " load ", " text ", " denoise ", " video ", " audio ", " write ", " completed"}) {
    Process server(command());
    server.wait_for_error_text(stage);  // or it ended: then everything was done
    server.send(SIGKILL);
    note_ends(server.finish().err);
  }
  const Outcome last = run(command());
  note_ends(last.err);
  expect_whole(lines(last));
  expect_single_ends();
}

TEST_F(KilledServer, A18_AtRandomMoments) {
  const char* asked = std::getenv("TRITIUM_FAULT_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 4;
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < rounds; ++i) {
    Process server(command());
    const int milliseconds = std::uniform_int_distribution(0, 1200)(random);
    SCOPED_TRACE("killed after " + std::to_string(milliseconds) + " ms");
    ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
    server.send(SIGKILL);
    note_ends(server.finish().err);
  }
  const Outcome last = run(command());
  note_ends(last.err);
  expect_whole(lines(last));
  expect_single_ends();
}

// Gracefully: what runs is kept and goes on, and no attempt is counted as failed.
TEST_F(KilledServer, StoppedWithSigterm) {
  {
    Process server(command());
    ASSERT_TRUE(server.wait_for_error_text(" denoise ")) << server.error_text();
    server.send(SIGTERM);
    const Outcome outcome = server.finish();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    note_ends(outcome.err);
  }
  const Outcome last = run(command());
  note_ends(last.err);
  expect_whole(lines(last));
  expect_single_ends();
}

}  // namespace
}  // namespace tritium::test
