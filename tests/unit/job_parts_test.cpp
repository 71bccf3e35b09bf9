// Parts of the service that need neither a store nor a worker.
#include "base/files.h"
#include "job/event_hub.h"
#include "job/job_files.h"
#include "job/process_facts.h"
#include "job/retention.h"
#include "unit/temp_folder.h"

#include <sys/wait.h>
#include <unistd.h>
#include <atomic>

namespace tritium {
namespace {

namespace fs = std::filesystem;

std::string kept(const RetentionLimits& limits, std::vector<FinishedJob> jobs) {
  for (const std::string& id : beyond_limits(jobs, limits)) std::erase_if(jobs, [&](const FinishedJob& job) { return job.id == id; });
  std::string out;
  for (const FinishedJob& job : jobs) out += job.id;
  return out;
}

TEST(Retention, A10_ByAgeCountAndBytes) {
  const std::vector<FinishedJob> jobs = {{"a", 9, 100}, {"b", 5, 100}, {"c", 1, 100}, {"d", 0.1, 500}};
  EXPECT_EQ(kept({}, jobs), "abcd");
  EXPECT_EQ(kept({.days = 30}, jobs), "abcd");
  EXPECT_EQ(kept({.days = 5}, jobs), "bcd");
  EXPECT_EQ(kept({.count = 2}, jobs), "cd");
  EXPECT_EQ(kept({.bytes = 700}, jobs), "bcd");
  EXPECT_EQ(kept({.bytes = 10}, jobs), "d") << "the newest result stays until it can be fetched";
  EXPECT_EQ(kept({.days = 0.05, .count = 9, .bytes = 10}, jobs), "");
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    files_.reset();
    auto opened = JobFiles::open(folder_.path() / "data");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    files_ = std::move(*opened);
  }
  [[nodiscard]] fs::path jobs() const { return folder_.path() / "data" / "jobs"; }
  test::TempFolder folder_;
  std::unique_ptr<JobFiles> files_;
};

TEST_F(Files, OneServiceHoldsTheFolder) {
  const auto second = JobFiles::open(folder_.path() / "data");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::conflict);
  EXPECT_NE(second.error().message.find("process"), std::string::npos);
  open();
}

TEST_F(Files, InputsMayVanishAfterwards) {
  Request request;
  request.first_frame = folder_.write("mine.png", "content");
  request.references.resize(1);
  request.references[0].file = folder_.path() / "data" / "spool" / "upload.wav";
  ASSERT_TRUE(write_file_atomically(request.references[0].file, "sound").ok());
  const Request before = request;
  ASSERT_TRUE(files_->take_inputs("a", request).ok());
  fs::remove(before.first_frame);
  fs::remove(before.references[0].file);
  EXPECT_EQ(*read_file(request.first_frame), "content");
  EXPECT_EQ(*read_file(request.references[0].file), "sound");
  EXPECT_EQ(request.first_frame.extension(), ".png");
  EXPECT_EQ(request.first_frame.parent_path(), jobs() / "a" / "inputs");
  Request gone = before;
  const auto refused = files_->take_inputs("b", gone);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::usage);
  EXPECT_EQ(refused.error().field, "first_frame");
  EXPECT_FALSE(fs::exists(jobs() / "b"));
}

TEST_F(Files, ResultsAppearInOneStep) {
  const auto folder = files_->begin("a", 2, 0);
  ASSERT_TRUE(folder.ok());
  ASSERT_TRUE(write_file_atomically(*folder / "video.mp4", "clip").ok());
  EXPECT_FALSE(files_->published("a", 0).has_value());
  const auto output = files_->publish("a", 2, 0);
  ASSERT_TRUE(output.ok()) << output.error().text();
  EXPECT_EQ(output->video, jobs() / "a" / "results" / "0" / "video.mp4");
  EXPECT_EQ(output->bytes, 4u);
  EXPECT_TRUE(output->thumbnail.empty());
  const auto again = files_->published("a", 0);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->sha256, output->sha256);
  ASSERT_TRUE(files_->begin("a", 3, 1).ok());
  ASSERT_TRUE(fs::create_directories(files_->checkpoint("a", 1)));
  files_->clean("a", 2, false);
  EXPECT_FALSE(fs::exists(jobs() / "a" / "2"));
  EXPECT_TRUE(fs::exists(jobs() / "a" / "3"));
  EXPECT_TRUE(fs::exists(files_->checkpoint("a", 1)));
  files_->clean("a", 3, true);
  EXPECT_FALSE(fs::exists(files_->checkpoint("a", 1).parent_path()));
  EXPECT_TRUE(files_->published("a", 0).has_value());
  EXPECT_EQ(files_->folders(), std::vector<std::string>{"a"});
  files_->remove("a");
  EXPECT_TRUE(files_->folders().empty());
}

// What workers of a killed server hold is waited for; a process that only has the number of one is left alone.
TEST_F(Files, OldWorkersAreWaitedFor) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(200'000);
    ::_exit(0);
  }
  files_->note_worker("worker-0", child);
  files_->note_worker("worker-1", ::getpid());
  ASSERT_TRUE(write_file_atomically(folder_.path() / "data" / "workers" / "worker-1", std::to_string(::getpid()) + " 12345").ok());
  EXPECT_NE(process_start(child), 0u);
  files_->wait_for_old_workers();
  EXPECT_EQ(process_start(child), 0u);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(fs::exists(folder_.path() / "data" / "workers"));
}

std::shared_ptr<const Job> job_of(const std::string& id, const std::string& owner) {
  Job out;
  out.id = id;
  out.spec.owner = owner;
  return std::make_shared<const Job>(std::move(out));
}

TEST(EventHub, TellsOwnersTheirJobsInOrder) {
  std::vector<std::string> all, one;
  std::vector<std::uint64_t> ids;
  std::atomic<int> heard = 0;
  {
    EventHub hub(1000);
    const auto everything = hub.subscribe("me", "", [&](const JobEvent& e) {
      all.push_back(e.job->id);
      ids.push_back(e.id);
      ++heard;
    });
    const auto single = hub.subscribe("me", "b", [&](const JobEvent& e) {
      one.push_back(e.job->id);
      ++heard;
    });
    for (const auto& [id, owner] : {std::pair("a", "me"), std::pair("b", "me"), std::pair("c", "you"), std::pair("b", "me")})
      hub.publish(JobEvent::Kind::state, job_of(id, owner));
    while (heard < 5) ::usleep(1000);
  }
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b", "b"}));
  EXPECT_EQ(one, (std::vector<std::string>{"b", "b"}));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{1000, 1001, 1003}));
}

TEST(EventHub, NothingIsCalledAfterASubscriptionIsDropped) {
  EventHub hub(1);
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_shared<std::atomic<bool>>(true);
    auto subscription = hub.subscribe("", "", [alive](const JobEvent&) { EXPECT_TRUE(*alive); });
    hub.publish(JobEvent::Kind::progress, job_of("a", ""));
    subscription.reset();
    *alive = false;
  }
}

}  // namespace
}  // namespace tritium
