// What fails around a service: workers that die, hang or cannot be started, disks that are full or read-only, a damaged database, clocks
// that jump.
#include "base/files.h"
#include "media/reader.h"
#include "support/build.h"
#include "support/service_fixture.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <atomic>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

class ServiceFault : public ServiceFixture {
 protected:
  // The bits that do not depend on the encoder (service_kill_test.cpp).
  static std::string thumbnail(const Job& job) {
    const auto out = job.outputs.empty() ? Result<std::string>(Error{}) : read_file(job.outputs[0].thumbnail);
    EXPECT_TRUE(out.ok());
    return out.ok() ? *out : "";
  }
  // A worker that does something before it begins.
  void worker_script(const std::string& line) {
    const fs::path program = folder_.path() / "worker.sh";
    std::ofstream(program) << "#!/bin/sh\n" << line << "\nexec '" << tritium_binary() << "' worker\n";
    fs::permissions(program, fs::perms::owner_all);
    options_.worker_command = {"/bin/sh", program.string()};
  }
};

TEST_F(ServiceFault, AWorkerKilledAtEveryStageCostsOneAttempt) {
  options_.checkpoint_steps = 2;
  start();
  const std::string whole = thumbnail(finish(submit(spec(12)).id));
  for (const std::string stage : {"load", "text", "denoise", "video", "audio", "write"}) {
    std::atomic<bool> killed = false;
    const auto subscription = service_->subscribe("", "", [&](const JobEvent& event) {
      const Progress& p = event.job->progress;
      if (event.kind == JobEvent::Kind::progress && p.stage == stage && (stage != "denoise" || p.step >= 5) && !killed.exchange(true))
        ::kill(worker_process(), SIGKILL);
    });
    const Job job = finish(submit(spec(12)).id);
    EXPECT_EQ(job.state, JobState::completed) << stage << (job.error ? ": " + job.error->message : "");
    EXPECT_EQ(thumbnail(job), whole) << stage;
    EXPECT_LE(job.attempt, killed ? 2 : 1) << stage;
  }
  EXPECT_GE(service_->status().workers[0].restarts, 3);
}

// A39: the job in the middle kills every worker that touches it.
TEST_F(ServiceFault, A39_APoisonJobFailsAndItsNeighboursFinish) {
  options_.max_attempts = 2;
  worker_script("echo 'the card fell off the bus' >&2");
  start();
  const std::string first = submit(spec(2)).id;
  JobSpec deadly = endless();
  deadly.id = "deadly";
  const auto subscription = service_->subscribe("", "deadly", [&](const JobEvent& event) {
    if (event.kind == JobEvent::Kind::progress && event.job->progress.stage == "denoise") ::kill(worker_process(), SIGKILL);
  });
  submit(deadly);
  const std::string third = submit(spec(2)).id;
  EXPECT_EQ(finish(first).state, JobState::completed);
  const Job dead = finish("deadly");
  EXPECT_EQ(dead.state, JobState::failed);
  EXPECT_EQ(dead.attempt, 2);
  ASSERT_TRUE(dead.error.has_value());
  EXPECT_NE(dead.error->message.find("signal 9"), std::string::npos) << dead.error->message;
  EXPECT_NE(dead.error->last_words.find("the card fell off the bus"), std::string::npos);
  EXPECT_EQ(finish(third).state, JobState::completed);
  EXPECT_EQ(service_->status().failed["worker died"], 1u);
}

TEST_F(ServiceFault, AWorkerThatHangsIsReplacedAndTheJobGoesOn) {
  options_.stall_seconds = 1;
  options_.checkpoint_steps = 2;
  start();
  std::atomic<bool> stopped = false;
  const std::string id = submit(spec(12)).id;
  const auto subscription = service_->subscribe("", id, [&](const JobEvent& event) {
    if (event.job->progress.stage == "denoise" && event.job->progress.step >= 5 && !stopped.exchange(true))
      ::kill(worker_process(), SIGSTOP);
  });
  const Job job = finish(id);
  EXPECT_EQ(job.state, JobState::completed);
  EXPECT_EQ(job.attempt, stopped ? 2 : 1);
}

// No process can be started for a while: jobs wait, and go on when it can.
TEST_F(ServiceFault, AWorkerThatCannotBeStarted) {
  const std::string away = (folder_.path() / "away").string();
  worker_script("[ -e '" + away + "' ] && exit 5");
  start();
  EXPECT_EQ(finish(submit(spec()).id).state, JobState::completed);
  folder_.write("away", "");
  for (const pid_t child : children_of(::getpid())) ::kill(child, SIGKILL);
  const auto submitted = service_->submit(spec());
  EXPECT_TRUE(submitted.ok() || submitted.error().code == ErrorCode::busy) << "the planner is gone too";
  fs::remove(away);
  EXPECT_EQ(finish(submit(spec()).id).state, JobState::completed) << "it recovers when the cause is gone";
}

TEST_F(ServiceFault, TheRequestsOwnErrorsAreNotTriedAgain) {
  start();
  JobSpec black = spec(1);
  black.request.prompt = "black";
  black.request.video_shift = 0.1;
  const Job job = finish(submit(black).id);
  EXPECT_EQ(job.attempt, 1) << (job.error ? job.error->message : "");
}

TEST_F(ServiceFault, WhatCannotBeServedIsRefusedAtTheStart) {
  start();
  const auto second = JobService::start(options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::conflict);
  service_.reset();
  options_.engine.model = folder_.path() / "nothing";
  EXPECT_EQ(JobService::start(options_).error().code, ErrorCode::model);
  options_.max_attempts = 0;
  EXPECT_EQ(JobService::start(options_).error().field, "max_attempts");
}

TEST_F(ServiceFault, ADamagedDatabaseLosesNoJob) {
  start();
  std::vector<std::string> ids;
  const std::string done = submit(spec()).id;
  finish(done);
  submit(endless());
  for (int i = 0; i < 20; ++i) ids.push_back(submit(spec(1, static_cast<std::uint64_t>(i))).id);
  service_->stop(0);
  service_.reset();
  const fs::path database = options_.data / "jobs.db";
  const int fd = ::open(database.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string garbage(static_cast<std::size_t>(fs::file_size(database)) / 2, '\x5a');
  EXPECT_EQ(::pwrite(fd, garbage.data(), garbage.size(), 4096), static_cast<ssize_t>(garbage.size()));
  ::close(fd);
  start();
  EXPECT_EQ(service_->list({.limit = 100})->jobs.size(), 22u);
  EXPECT_EQ(get(done).state, JobState::completed);
  EXPECT_TRUE(probe_media(get(done).outputs[0].video).ok());
  for (const std::string& id : ids) EXPECT_EQ(get(id).state, JobState::queued);
  int kept = 0;
  for (const auto& entry : fs::directory_iterator(options_.data))
    kept += entry.path().string().find("jobs.db.damaged-") != std::string::npos;
  EXPECT_GE(kept, 1);
}

TEST_F(ServiceFault, AThousandWaitingJobsAreThereAfterARestart) {
  options_.max_queued = 2000;
  const int count = std::getenv("TRITIUM_FAULT_ROUNDS") != nullptr ? 1000 : 50;
  start();
  const std::string running = submit(endless()).id;
  ASSERT_TRUE(wait_for_stage(running, "denoise"));
  for (int i = 0; i < count; ++i) submit(spec());
  service_->stop(0);
  service_.reset();
  const auto begun = std::chrono::steady_clock::now();
  start();
  EXPECT_EQ(service_->list({.limit = 1})->jobs.size(), 1u);
  std::printf("%d waiting jobs: ready after %lld ms\n", count,
              static_cast<long long>((std::chrono::steady_clock::now() - begun) / std::chrono::milliseconds(1)));
  EXPECT_GE(service_->status().queued + service_->status().running, static_cast<std::size_t>(count));
}

TEST_F(ServiceFault, TheWallClockMayJump) {
  std::atomic<UnixMillis> jump = 0;
  JobClock clock = JobClock::system();
  clock.wall = [&, real = clock.wall] { return real() + jump; };
  options_.keep_days = 1;
  const auto begin = [&] {
    auto started = LocalJobService::start(options_, clock);
    ASSERT_TRUE(started.ok()) << started.error().text();
    service_ = std::move(*started);
  };
  begin();
  const std::string first = submit(spec()).id;
  finish(first);
  const std::string running = submit(spec(60)).id, waiting = submit(spec()).id;
  ASSERT_TRUE(wait_for_stage(running, "denoise"));
  for (const UnixMillis days : {4000, -8000}) {
    jump = days * 86'400'000;
    ::usleep(50'000);
  }
  EXPECT_EQ(finish(running).state, JobState::completed);
  EXPECT_EQ(finish(waiting).state, JobState::completed);
  EXPECT_EQ(get(running).attempt, 1);
  service_->stop(0);
  service_.reset();
  jump = 9000LL * 86'400'000;
  begin();
  ::usleep(100'000);
  EXPECT_EQ(get(first).state, JobState::completed) << "not too old all at once";
}

// A small file system of the test's own.
class SmallDisk : public ServiceFault {
 protected:
  void SetUp() override {
    ServiceFault::SetUp();
    fs::create_directories(options_.data);
    if (::mount("tmpfs", options_.data.c_str(), "tmpfs", 0, "size=12m") != 0)
      GTEST_SKIP() << "no file system can be mounted here (needs root)";
    mounted_ = true;
  }
  void TearDown() override {
    service_.reset();
    if (mounted_) ::umount2(options_.data.c_str(), MNT_DETACH);
  }
  bool wait_for(const std::function<bool(const ServiceStatus&)>& done) {
    for (int i = 0; i < 3000; ++i) {
      if (done(service_->status())) return true;
      ::usleep(10'000);
    }
    return false;
  }
  // Takes all the room there is.
  void fill() const {
    const int fd = ::open((options_.data / "filler").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const std::string block(65536, 'x');
    while (::write(fd, block.data(), block.size()) > 0) continue;
    ::close(fd);
  }
  bool mounted_ = false;
};

TEST_F(SmallDisk, AFullDiskStopsWorkUntilThereIsRoom) {
  start();
  const std::string first = submit(spec(60)).id, second = submit(spec()).id;
  ASSERT_TRUE(wait_for_stage(first, "denoise"));
  fill();
  ASSERT_TRUE(wait_for([](const ServiceStatus& status) { return !status.ready && status.reason.find("No space") != std::string::npos; }))
      << service_->status().reason;
  EXPECT_EQ(get(first).state, JobState::running);
  EXPECT_EQ(get(second).state, JobState::queued);
  const auto refused = service_->submit(spec());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::busy) << refused.error().text();
  fs::remove(options_.data / "filler");
  EXPECT_EQ(finish(first).state, JobState::completed);
  EXPECT_EQ(finish(second).state, JobState::completed);
  EXPECT_EQ(get(first).attempt, 1);
  EXPECT_TRUE(wait_for([](const ServiceStatus& status) { return status.ready; }));
}

// The folder seen through a mount that cannot be written; the database, which is open, still can.
TEST_F(SmallDisk, AReadOnlyFolderStopsWorkUntilItCanBeWritten) {
  start();
  const std::string first = submit(spec(60)).id, second = submit(spec()).id;
  ASSERT_TRUE(wait_for_stage(first, "denoise"));
  const char* data = options_.data.c_str();
  ASSERT_EQ(::mount(data, data, nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, data, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  ASSERT_TRUE(
      wait_for([](const ServiceStatus& status) { return !status.ready && status.reason.find("cannot be written") != std::string::npos; }));
  EXPECT_EQ(get(first).state, JobState::running);
  EXPECT_EQ(get(second).state, JobState::queued) << "questions are answered";
  EXPECT_EQ(service_->submit(spec()).error().code, ErrorCode::busy);
  ASSERT_EQ(::umount2(data, 0), 0);
  EXPECT_EQ(finish(first).state, JobState::completed);
  EXPECT_EQ(finish(second).state, JobState::completed);
  EXPECT_EQ(get(first).attempt, 1);
}

}  // namespace
}  // namespace tritium::test
