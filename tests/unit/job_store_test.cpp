// The store of jobs: what it promises about states, leases, clocks and damaged files.
#include "job/service.h"
#include "job/sqlite_store.h"
#include "job/stored_job.h"
#include "unit/temp_folder.h"

#include <fcntl.h>
#include <unistd.h>
#include <fstream>

namespace tritium {
namespace {

namespace fs = std::filesystem;

constexpr double kLease = 100;

class JobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }

  void open() {
    store_.reset();
    auto opened = open_sqlite_store(file(), {[this] { return wall_; }, [this] { return monotonic_; }}, &health_);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    store_ = std::move(*opened);
  }
  [[nodiscard]] fs::path file() const { return folder_.path() / "jobs.db"; }

  static Job job(const std::string& id, int priority = 0) {
    Job out;
    out.id = id;
    out.max_attempts = 3;
    out.spec.priority = priority;
    out.spec.request.prompt = "a red circle";
    out.plan.seed = 7;
    return out;
  }
  std::int64_t add(const std::string& id, int priority = 0) {
    const auto out = store_->add(job(id, priority), "");
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? out->sequence : -1;
  }
  Job lease(const std::string& worker = "w") {
    const auto out = store_->lease(worker, kLease);
    EXPECT_TRUE(out.ok() && out->has_value());
    return out.ok() && *out ? **out : Job{};
  }
  Job find(const std::string& id) {
    const auto out = store_->find(id);
    EXPECT_TRUE(out.ok() && out->has_value()) << id;
    return out.ok() && *out ? **out : Job{};
  }
  std::optional<Job> finish(const Job& leased, JobState state) {
    Job done = leased;
    done.state = state;
    const auto out = store_->finish({leased.id, leased.attempt}, done, 10);
    EXPECT_TRUE(out.ok());
    return out.ok() ? *out : std::nullopt;
  }
  std::optional<Job> release(const Job& leased, Release why) {
    Job reached = leased;
    if (why == Release::failed) reached.error = JobError{ErrorCode::device, "it died", "", "", "denoise", "last words"};
    const auto out = store_->release({leased.id, leased.attempt}, reached, why);
    EXPECT_TRUE(out.ok());
    return out.ok() ? *out : std::nullopt;
  }

  test::MemoryFolder folder_;
  UnixMillis wall_ = 1'700'000'000'000;
  double monotonic_ = 1000;
  StoreHealth health_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(JobStoreTest, AJobComesBackAsItWasStored) {
  Job whole = job("whole", 5);
  whole.spec.request.first_frame = "caf\xe9.png";
  whole.spec.request.seconds = 4.5;
  whole.spec.deadline_seconds = 0.1;
  whole.spec.dialect_data = "{\"node\": 3}";
  whole.plan.video_sigmas = {1, 0.3f, 0};
  whole.outputs = {{"a.mp4", "a.mp4.json", "a.jpg", 12, "ff", 9}};
  const auto added = store_->add(whole, "print");
  ASSERT_TRUE(added.ok());
  whole.sequence = added->sequence;
  EXPECT_EQ(encode_job(find("whole")), encode_job(whole));
  open();
  EXPECT_EQ(encode_job(find("whole")), encode_job(whole));
  EXPECT_FALSE(store_->find("nobody")->has_value());
}

TEST_F(JobStoreTest, PriorityThenTheOrderOfSubmission) {
  for (const auto& [id, priority] : {std::pair("a", 0), std::pair("b", -5), std::pair("c", 7), std::pair("d", 0)}) add(id, priority);
  std::string order;
  const auto queue = store_->queue();
  ASSERT_TRUE(queue.ok());
  for (const QueuedJob& waiting : *queue) order += waiting.id;
  EXPECT_EQ(order, "cadb");
  std::string ran;
  for (int i = 0; i < 4; ++i) ran += lease().id;
  EXPECT_EQ(ran, order);
  EXPECT_FALSE(store_->lease("w", kLease)->has_value());
}

TEST_F(JobStoreTest, AnOldAttemptCanChangeNothing) {
  add("a");
  const Job first = lease();
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(first.state, JobState::running);
  ASSERT_TRUE(release(first, Release::interrupted).has_value());
  const Job second = lease();
  EXPECT_EQ(second.attempt, 2);
  EXPECT_FALSE(*store_->renew({"a", 1}, first, kLease));
  EXPECT_FALSE(finish(first, JobState::completed).has_value());
  EXPECT_FALSE(release(first, Release::failed).has_value());
  EXPECT_EQ(find("a").state, JobState::running);
  EXPECT_TRUE(*store_->renew({"a", 2}, second, kLease));
  EXPECT_EQ(finish(second, JobState::completed)->state, JobState::completed);
  EXPECT_FALSE(finish(second, JobState::failed).has_value());
}

TEST_F(JobStoreTest, APoisonJobFailsWithItsLastError) {
  add("a");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    const auto back = release(lease(), Release::failed);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->state, attempt < 3 ? JobState::queued : JobState::failed);
    ASSERT_TRUE(back->error.has_value());
    EXPECT_EQ(back->error->last_words, "last words");
  }
  EXPECT_FALSE(store_->lease("w", kLease)->has_value());
}

TEST_F(JobStoreTest, InterruptionsAreNoFailures) {
  add("a");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(release(lease(), Release::interrupted)->state, JobState::queued);
}

TEST_F(JobStoreTest, A15_TerminalStatesNeverChange) {
  for (const char* id : {"done", "failed", "cancelled"}) add(id);
  finish(lease(), JobState::completed);
  finish(lease(), JobState::failed);
  EXPECT_EQ((*store_->cancel("cancelled"))->state, JobState::cancelled);
  for (const auto& [id, state] :
       {std::pair("done", JobState::completed), std::pair("failed", JobState::failed), std::pair("cancelled", JobState::cancelled)}) {
    EXPECT_EQ((*store_->cancel(id))->state, state);
    EXPECT_EQ(find(id).state, state);
  }
  open();
  EXPECT_EQ(find("done").state, JobState::completed);
  EXPECT_FALSE(store_->lease("w", kLease)->has_value());
}

TEST_F(JobStoreTest, ACancelledJobNeverCompletes) {
  add("a");
  const Job running = lease();
  const auto marked = store_->cancel("a");
  EXPECT_EQ((*marked)->state, JobState::running);
  EXPECT_TRUE((*marked)->cancel_requested);
  EXPECT_EQ(finish(running, JobState::completed)->state, JobState::cancelled);
  add("b");
  const Job second = lease();
  ASSERT_TRUE(store_->cancel("b")->has_value());
  EXPECT_EQ(release(second, Release::failed)->state, JobState::cancelled);
}

TEST_F(JobStoreTest, A20_IdsAndKeysAreTakenOnce) {
  add("a");
  const auto again = store_->add(job("a"), "");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::conflict);
  EXPECT_NE(again.error().message.find("it is queued"), std::string::npos);
  Job keyed = job("b");
  keyed.spec.owner = "me";
  keyed.spec.idempotency_key = "key";
  ASSERT_TRUE(store_->add(keyed, "print").ok());
  keyed.id = "c";
  EXPECT_EQ(store_->add(keyed, "print").error().code, ErrorCode::conflict);
  keyed.spec.owner = "you";
  EXPECT_TRUE(store_->add(keyed, "other").ok());
  const auto found = store_->find_key("me", "key");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->job.id, "b");
  EXPECT_EQ((*found)->fingerprint, "print");
  EXPECT_FALSE(store_->find_key("me", "")->has_value());
  EXPECT_TRUE(*store_->remove("b"));
  EXPECT_FALSE(*store_->remove("b"));
  EXPECT_FALSE(store_->find_key("me", "key")->has_value());
}

TEST_F(JobStoreTest, PagesOfAList) {
  for (int i = 0; i < 5; ++i) {
    Job each = job("j" + std::to_string(i));
    each.spec.owner = i == 3 ? "you" : "me";
    each.spec.dialect = i == 1 ? "comfy" : "videos";
    ASSERT_TRUE(store_->add(each, "").ok());
  }
  const auto ids = [&](const JobQuery& query) {
    const auto page = store_->list(query);
    EXPECT_TRUE(page.ok()) << page.error().text();
    std::string out;
    if (page.ok()) {
      for (const std::string& id : page->ids) out += id;
      if (page->has_more) out += "+";
    }
    return out;
  };
  EXPECT_EQ(ids({.owner = "me", .limit = 2}), "j4j2+");
  EXPECT_EQ(ids({.owner = "me", .after = "j2", .limit = 2}), "j1j0");
  EXPECT_EQ(ids({.owner = "me", .after = "j0", .oldest_first = true}), "j1j2j4");
  EXPECT_EQ(ids({.owner = "me", .dialect = "comfy"}), "j1");
  EXPECT_EQ(ids({.owner = "me", .states = {JobState::running, JobState::failed}}), "");
  EXPECT_EQ(ids({.owner = "nobody"}), "");
  EXPECT_EQ(store_->list({.owner = "me", .after = "j3"}).error().code, ErrorCode::not_found);
}

TEST_F(JobStoreTest, A17_WhatWasRunningWaitsAgainAfterARestart) {
  for (const char* id : {"a", "b", "c"}) add(id);
  finish(lease(), JobState::completed);
  lease();
  open();
  EXPECT_EQ(find("a").state, JobState::completed);
  EXPECT_EQ(find("b").state, JobState::queued);
  EXPECT_EQ(find("b").attempt, 1);
  const Job again = lease();
  EXPECT_EQ(again.id, "b");
  EXPECT_EQ(again.attempt, 2);
}

TEST_F(JobStoreTest, ACancelledRunningJobIsCancelledAfterARestart) {
  add("a");
  lease();
  ASSERT_TRUE(store_->cancel("a").ok());
  open();
  EXPECT_EQ(find("a").state, JobState::cancelled);
}

TEST_F(JobStoreTest, LeasesRunOutByTheMonotonicClock) {
  add("a");
  const Job first = lease();
  for (const UnixMillis jump : {400LL * 86'400'000, -4000LL * 86'400'000}) {
    wall_ += jump;
    EXPECT_TRUE(store_->reclaim()->empty()) << "a jump of the wall clock is no time";
  }
  monotonic_ += kLease + 1;
  const auto reclaimed = store_->reclaim();
  ASSERT_EQ(reclaimed->size(), 1u);
  EXPECT_EQ(reclaimed->front().state, JobState::queued);
  EXPECT_FALSE(finish(first, JobState::completed).has_value());
}

TEST_F(JobStoreTest, AgesDoNotFollowJumpsOfTheClock) {
  add("a");
  finish(lease(), JobState::completed);
  constexpr double kDay = 86400;
  const auto age = [&] { return store_->finished()->front().age_days; };
  wall_ += 4000LL * 86'400'000;
  EXPECT_NEAR(age(), 0, 1e-6);
  monotonic_ += 3 * kDay;
  EXPECT_NEAR(age(), 3, 1e-6);
  ASSERT_TRUE(store_->check_writable().ok());
  wall_ += 4000LL * 86'400'000;  // while nobody looks
  monotonic_ = 5;                // another boot
  open();
  EXPECT_NEAR(age(), 4, 1e-6) << "a time away counts as at most a day";
  wall_ -= 9000LL * 86'400'000;
  open();
  EXPECT_NEAR(age(), 4, 1e-6);
}

TEST_F(JobStoreTest, EventNumbersGrowOverRestarts) {
  const std::uint64_t first = *store_->reserve_event_ids();
  EXPECT_GE(first, std::uint64_t{1} << 32);
  open();
  EXPECT_EQ(*store_->reserve_event_ids(), first + (std::uint64_t{1} << 32));
}

TEST_F(JobStoreTest, AThousandJobsSurviveARestart) {
  for (int i = 0; i < 1000; ++i) add("j" + std::to_string(i));
  open();
  EXPECT_EQ(store_->queue()->size(), 1000u);
  EXPECT_EQ(store_->ids()->size(), 1000u);
  EXPECT_EQ(store_->list({.limit = 1000})->ids.size(), 1000u);
}

// Damaged files.

class DamagedStore : public JobStoreTest {
 protected:
  void overwrite(std::uint64_t at, std::size_t count) const {
    const int fd = ::open(file().c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const std::string garbage(count, '\x5a');
    EXPECT_EQ(::pwrite(fd, garbage.data(), garbage.size(), static_cast<off_t>(at)), static_cast<ssize_t>(count));
    ::close(fd);
  }
  void fill() {
    for (int i = 0; i < 200; ++i) add("j" + std::to_string(i));
    store_.reset();  // everything goes from the log into the file
  }
};

TEST_F(DamagedStore, ADamagedPageCostsOnlyItsJobs) {
  fill();
  const std::uint64_t size = fs::file_size(file());
  overwrite(size / 2 / 4096 * 4096, 4096);
  open();
  ASSERT_NE(store_, nullptr);
  EXPECT_FALSE(health_.damaged.empty());
  EXPECT_TRUE(fs::exists(health_.damaged));
  EXPECT_NE(health_.damaged.string().find("jobs.db.damaged-"), std::string::npos);
  EXPECT_GE(health_.saved, 190u);
  EXPECT_EQ(store_->ids()->size(), health_.saved);
  EXPECT_TRUE(store_->lease("w", kLease)->has_value()) << "it works";
  open();
  EXPECT_TRUE(health_.damaged.empty()) << "the new file is sound";
}

TEST_F(DamagedStore, AFileThatIsNoDatabase) {
  fill();
  overwrite(0, 4096);
  open();
  ASSERT_NE(store_, nullptr);
  EXPECT_FALSE(health_.damaged.empty());
  EXPECT_TRUE(store_->ids()->empty());
  add("new");
}

TEST_F(DamagedStore, ACutFile) {
  fill();
  fs::resize_file(file(), fs::file_size(file()) / 2 / 4096 * 4096);
  open();
  ASSERT_NE(store_, nullptr);
  EXPECT_FALSE(health_.damaged.empty());
  EXPECT_GT(health_.saved, 0u);
}

TEST_F(DamagedStore, AFileOfANewerVersionIsLeftAlone) {
  store_.reset();
  // The format's version stands in the header at byte 60, most significant byte first.
  std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(60);
  out.write("\0\0\0\x63", 4);
  out.close();
  const auto opened = open_sqlite_store(file(), JobClock::system());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("format 99"), std::string::npos) << opened.error().text();
  EXPECT_TRUE(fs::exists(file()));
}

TEST_F(JobStoreTest, FilesWithContentMakeTheFingerprint) {
  JobSpec one;
  one.request.prompt = "x";
  one.request.first_frame = folder_.write("a.png", "picture");
  JobSpec two = one;
  two.request.first_frame = folder_.write("b.png", "picture");
  two.id = "chosen";
  EXPECT_EQ(*request_fingerprint(one), *request_fingerprint(two));
  two.request.first_frame = folder_.write("c.png", "another");
  EXPECT_NE(*request_fingerprint(one), *request_fingerprint(two));
  two = one;
  two.request.steps = 3;
  EXPECT_NE(*request_fingerprint(one), *request_fingerprint(two));
  one.request.first_frame = "nowhere.png";
  const auto refused = request_fingerprint(one);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "first_frame");
}

}  // namespace
}  // namespace tritium
