// The service of jobs with real workers: what callers are promised, whatever fails.
#include "base/files.h"
#include "media/jpeg_writer.h"
#include "media/reader.h"
#include "support/service_fixture.h"

#include <sys/resource.h>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

class Service : public ServiceFixture {};

TEST_F(Service, AJobFromSubmissionToItsFile) {
  start();
  std::mutex mutex;
  std::vector<JobEvent> events;
  const auto subscription = service_->subscribe("", "", [&](const JobEvent& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
  });
  const Job queued = submit(spec());
  EXPECT_EQ(queued.plan.frames, 22);
  EXPECT_NE(queued.plan_json.find("\"frames\": 22"), std::string::npos);
  const Job job = finish(queued.id);
  ASSERT_EQ(job.state, JobState::completed) << (job.error ? job.error->message : "");
  ASSERT_EQ(job.outputs.size(), 1u);
  EXPECT_EQ(job.outputs[0].seed, 1u);
  EXPECT_EQ(job.outputs[0].bytes, fs::file_size(job.outputs[0].video));
  EXPECT_EQ(job.outputs[0].sha256.size(), 64u);
  EXPECT_TRUE(fs::exists(job.outputs[0].sidecar));
  const auto media = probe_media(job.outputs[0].video);
  ASSERT_TRUE(media.ok()) << media.error().text();
  EXPECT_EQ(media->video->frames, 22);
  EXPECT_GT(job.peak_memory_bytes, std::uint64_t{1} << 20);
  EXPECT_FALSE(job.timings.empty());
  EXPECT_EQ(job.attempt, 1);
  EXPECT_GE(job.finished, job.started);
  EXPECT_GT(job.expires, job.finished);
  service_->stop(0);
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(events.front().job->state, JobState::queued);
  EXPECT_EQ(events.back().job->state, JobState::completed);
  for (std::size_t i = 1; i < events.size(); ++i) EXPECT_GT(events[i].id, events[i - 1].id);
  const ServiceStatus status = service_->status();
  EXPECT_EQ(status.completed, 1u);
  EXPECT_EQ(status.steps, 2u);
}

TEST_F(Service, SeveralOutputsDifferInTheirSeeds) {
  start();
  JobSpec two = spec();
  two.outputs = 2;
  const Job job = finish(submit(two).id);
  ASSERT_EQ(job.state, JobState::completed);
  ASSERT_EQ(job.outputs.size(), 2u);
  EXPECT_EQ(job.outputs[1].seed, 2u);
  EXPECT_NE(job.outputs[0].sha256, job.outputs[1].sha256);
}

// Every bad request is answered at once, however many come together, and the good one after them is done.
TEST_F(Service, A2_InvalidRequestsDoNotBlock) {
  start();
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&, i] {
      JobSpec bad = spec();
      if (i % 4 == 0) bad.request.width = -5;
      if (i % 4 == 1) bad.request.first_frame = "no/such/picture.png";
      if (i % 4 == 2) bad.outputs = 11;
      if (i % 4 == 3) bad.request.prompt = "\xff";
      const auto out = service_->submit(bad);
      ASSERT_FALSE(out.ok());
      EXPECT_EQ(out.error().code, ErrorCode::usage) << out.error().text();
      EXPECT_FALSE(out.error().field.empty()) << out.error().text();
      ++refused;
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(refused, 16);
  EXPECT_EQ(finish(submit(spec()).id).state, JobState::completed);
  EXPECT_EQ(service_->list({})->jobs.size(), 1u);
  for (const auto& entry : fs::directory_iterator(options_.data / "jobs"))
    EXPECT_TRUE(fs::exists(entry.path() / "results")) << entry.path();
}

TEST_F(Service, BadSpecsAreRefusedByField) {
  start();
  const std::pair<const char*, std::function<void(JobSpec&)>> cases[] = {
      {"id", [](JobSpec& s) { s.id = "../x"; }},
      {"id", [](JobSpec& s) { s.id = std::string(65, 'a'); }},
      {"outputs", [](JobSpec& s) { s.outputs = 0; }},
      {"priority", [](JobSpec& s) { s.priority = 101; }},
      {"idempotency_key", [](JobSpec& s) { s.idempotency_key = std::string(256, 'k'); }},
      {"deadline_seconds", [](JobSpec& s) { s.deadline_seconds = 0; }},
      {"deadline_seconds", [](JobSpec& s) { s.deadline_seconds = std::nan(""); }},
      {"seconds", [](JobSpec& s) { s.request.frames.reset(), s.request.seconds = -1; }}};
  for (const auto& [field, spoil] : cases) {
    JobSpec bad = spec();
    spoil(bad);
    const auto out = service_->submit(bad);
    ASSERT_FALSE(out.ok()) << field;
    EXPECT_EQ(out.error().code, ErrorCode::usage);
    EXPECT_EQ(out.error().field, field);
  }
}

TEST_F(Service, A4_StatesAreTrueAndDeletedWorkStops) {
  start();
  const std::string first = submit(endless()).id, second = submit(endless()).id, third = submit(spec()).id;
  ASSERT_TRUE(wait_for_stage(first, "denoise"));
  EXPECT_EQ(get(first).state, JobState::running);
  EXPECT_EQ(get(second).state, JobState::queued);
  EXPECT_EQ(get(second).queue_position, 0);
  EXPECT_EQ(get(third).queue_position, 1);
  ASSERT_TRUE(service_->remove(second, "").ok());
  EXPECT_EQ(get(third).queue_position, 0);
  ASSERT_TRUE(service_->remove(first, "").ok());
  EXPECT_EQ(service_->get(first, "").error().code, ErrorCode::not_found);
  EXPECT_FALSE(fs::exists(options_.data / "jobs" / first));
  EXPECT_EQ(finish(third).state, JobState::completed);
  EXPECT_EQ(service_->list({})->jobs.size(), 1u);
}

TEST_F(Service, A8_A9_A15_CancellingStopsTheWork) {
  start();
  const std::string id = submit(endless()).id;
  ASSERT_TRUE(wait_for_stage(id, "denoise"));
  const auto begun = std::chrono::steady_clock::now();
  const auto marked = service_->cancel(id, "");
  ASSERT_TRUE(marked.ok());
  EXPECT_TRUE(marked->cancel_requested || marked->state == JobState::cancelled);
  const Job job = finish(id);
  EXPECT_EQ(job.state, JobState::cancelled);
  RecordProperty("milliseconds_to_cancel", static_cast<int>((std::chrono::steady_clock::now() - begun) / std::chrono::milliseconds(1)));
  EXPECT_FALSE(job.error.has_value());
  for (int i = 0; i < 20; ++i) {  // it stays
    EXPECT_EQ(get(id).state, JobState::cancelled);
    ::usleep(5'000);
  }
  EXPECT_EQ(service_->cancel(id, "")->state, JobState::cancelled);
  EXPECT_FALSE(fs::exists(options_.data / "jobs" / id / "1"));
  // The worker lives on, and what is finished cannot be cancelled.
  const std::string next = submit(spec()).id;
  EXPECT_EQ(finish(next).state, JobState::completed);
  EXPECT_EQ(service_->cancel(next, "")->state, JobState::completed);
  const ServiceStatus status = service_->status();
  EXPECT_EQ(status.cancelled, 1u);
  EXPECT_EQ(status.workers[0].restarts, 0);
}

TEST_F(Service, AQueuedJobIsCancelledAtOnce) {
  start();
  submit(endless());
  const std::string id = submit(spec()).id;
  EXPECT_EQ(service_->cancel(id, "")->state, JobState::cancelled);
}

TEST_F(Service, A19_TheSameTwiceGivesTwoResults) {
  start();
  const Job first = submit(spec()), second = submit(spec());
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(finish(first.id).outputs.size(), 1u);
  EXPECT_EQ(finish(second.id).outputs.size(), 1u);
}

TEST_F(Service, A20_AnIdOrKeyThatIsKnown) {
  start();
  JobSpec keyed = spec();
  keyed.idempotency_key = "key";
  keyed.request.first_frame = folder_.write("one.jpg", *encode_jpeg({32, 32, std::vector<std::uint8_t>(32 * 32 * 3, 90)}));
  const auto first = service_->submit(keyed);
  ASSERT_TRUE(first.ok()) << first.error().text();
  EXPECT_FALSE(first->existing);
  // An upload comes under another name the second time.
  fs::rename(keyed.request.first_frame, folder_.path() / "two.jpg");
  keyed.request.first_frame = folder_.path() / "two.jpg";
  const auto again = service_->submit(keyed);
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_TRUE(again->existing);
  EXPECT_EQ(again->job.id, first->job.id);
  keyed.request.seed = 99;
  EXPECT_EQ(service_->submit(keyed).error().code, ErrorCode::conflict);
  keyed.owner = "somebody else";
  EXPECT_TRUE(service_->submit(keyed).ok());
  JobSpec named = spec();
  named.id = "mine";
  EXPECT_EQ(submit(named).id, "mine");
  const auto taken = service_->submit(named);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, ErrorCode::conflict);
  EXPECT_NE(taken.error().message.find("it is "), std::string::npos);
}

TEST_F(Service, JobsOfOthersDoNotExist) {
  start();
  JobSpec mine = spec();
  mine.owner = "me";
  const std::string id = submit(mine).id;
  for (const char* other : {"", "you"}) {
    EXPECT_EQ(service_->get(id, other).error().code, ErrorCode::not_found);
    EXPECT_EQ(service_->cancel(id, other).error().code, ErrorCode::not_found);
    EXPECT_EQ(service_->remove(id, other).error().code, ErrorCode::not_found);
    EXPECT_EQ(service_->wait(id, other, std::chrono::milliseconds(1)).error().code, ErrorCode::not_found);
    EXPECT_TRUE(service_->list({.owner = other})->jobs.empty());
  }
  EXPECT_TRUE(service_->get(id, "me").ok());
}

TEST_F(Service, A40_WhatWasFinishedOfACancelledJobIsKept) {
  start();
  JobSpec several = spec(40);
  several.outputs = 3;
  const std::string id = submit(several).id;
  ASSERT_TRUE(wait_until(id, [](const Job& job) { return job.output == 2 && job.progress.stage == "denoise"; }));
  ASSERT_TRUE(service_->cancel(id, "").ok());
  const Job job = finish(id);
  EXPECT_EQ(job.state, JobState::cancelled);
  ASSERT_EQ(job.outputs.size(), 2u);
  for (const JobOutput& output : job.outputs) EXPECT_TRUE(probe_media(output.video).ok());
}

TEST_F(Service, ADeadlineEndsTheJob) {
  start();
  JobSpec late = endless();
  late.deadline_seconds = 0.4;
  const Job job = finish(submit(late).id);
  EXPECT_EQ(job.state, JobState::failed);
  ASSERT_TRUE(job.error.has_value());
  EXPECT_EQ(job.error->field, "deadline_seconds");
  EXPECT_EQ(service_->status().failed["deadline"], 1u);
}

TEST_F(Service, AFullQueueIsBusy) {
  options_.max_queued = 2;
  start();
  const std::string running = submit(endless()).id;
  ASSERT_TRUE(wait_until(running, [](const Job& job) { return job.state == JobState::running; }));
  submit(spec());
  submit(spec());
  const auto third = service_->submit(spec());
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::busy);
  service_->stop(0);
  EXPECT_EQ(service_->submit(spec()).error().code, ErrorCode::busy);
}

// Nothing is planned against what a worker holds.
TEST_F(Service, A36_PlansKeepToTheBudgetOfTheStart) {
  options_.engine.memory_budgets = {"host=0.5"};
  start();
  const std::uint64_t half = std::uint64_t{1} << 29;
  const auto before = service_->plan(spec().request);
  ASSERT_TRUE(before.ok()) << before.error().text();
  EXPECT_EQ(before->memories.front().budget_bytes, half);
  EXPECT_EQ(finish(submit(spec()).id).state, JobState::completed);
  EXPECT_EQ(service_->plan(spec().request)->memories.front().budget_bytes, half);
  Request large = spec().request;
  large.width = large.height = 2048;
  large.frames = 362;
  const auto refused = service_->plan(large);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::does_not_fit);
  JobSpec never = spec();
  never.request = large;
  EXPECT_EQ(service_->submit(never).error().message, refused.error().message);
}

TEST_F(Service, SeveralWorkersShareTheMemoryAndTheWork) {
  options_.engine.memory_budgets = {"host=1"};
  options_.workers = {"CPU", "CPU"};
  start();
  EXPECT_EQ(service_->plan(spec().request)->memories.front().budget_bytes, std::uint64_t{1} << 29);
  const std::string first = submit(endless()).id, second = submit(endless()).id;
  for (const std::string& id : {first, second}) ASSERT_TRUE(wait_for_stage(id, "denoise"));
  EXPECT_EQ(get(first).state, JobState::running);
  EXPECT_NE(get(first).worker, get(second).worker);
  EXPECT_EQ(service_->status().running, 2u);
}

TEST_F(Service, A10_FinishedJobsGoByPolicyOnly) {
  options_.keep_count = 2;
  start();
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(submit(spec(1, static_cast<std::uint64_t>(i))).id);
  for (const std::string& id : ids) finish(id);
  service_.reset();
  start();  // the policy is applied at the start
  for (int i = 0; i < 500 && service_->list({})->jobs.size() > 2; ++i) ::usleep(10'000);
  EXPECT_EQ(service_->list({})->jobs.size(), 2u);
  EXPECT_EQ(service_->get(ids[0], "").error().code, ErrorCode::not_found);
  EXPECT_FALSE(fs::exists(options_.data / "jobs" / ids[0]));
  EXPECT_TRUE(fs::exists(get(ids[3]).outputs[0].video));
}

TEST_F(Service, PreviewsAreEventsOnceAClipIsKnown) {
  start();
  finish(submit(spec()).id);
  std::atomic<int> previews = 0, progress = 0;
  const std::string id = submit(spec(300)).id;
  const auto subscription = service_->subscribe("", id, [&](const JobEvent& event) {
    if (event.kind == JobEvent::Kind::preview && event.preview->starts_with("\xff\xd8")) ++previews;
    if (event.kind == JobEvent::Kind::progress) ++progress;
  });
  const Job job = finish(id);
  EXPECT_EQ(job.state, JobState::completed);
  EXPECT_GT(previews, 0);
  // Ten in a second, and one for the beginning of each of six stages.
  double seconds = 0;
  for (const StageTiming& timing : job.timings) seconds += timing.seconds;
  EXPECT_LE(progress, 10 * seconds + 8);
  EXPECT_TRUE(fs::exists(job.outputs[0].thumbnail));
}

TEST_F(Service, A38_AnIdleServiceStaysUpAndRests) {
  start();
  finish(submit(spec()).id);
  const auto ticks = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
  };
  const auto before = ticks();
  ::usleep(1'500'000);
  EXPECT_LT(ticks() - before, 150) << "milliseconds of work in 1.5 s of rest";
  EXPECT_TRUE(service_->status().ready) << service_->status().reason;
  service_->free_memory();
  EXPECT_EQ(finish(submit(spec()).id).state, JobState::completed);
}

// D5: many jobs in one worker. The number is small here; TRITIUM_FAULT_ROUNDS multiplies it.
TEST_F(Service, D5_ManyJobsInOneWorker) {
  const char* asked = std::getenv("TRITIUM_FAULT_ROUNDS");
  const int count = asked != nullptr ? 5 * std::atoi(asked) : 10;
  start();
  std::uint64_t early = 0;
  for (int i = 0; i < count; ++i) {
    const Job job = finish(submit(spec(1, static_cast<std::uint64_t>(i))).id);
    ASSERT_EQ(job.state, JobState::completed);
    if (i == 4) early = service_->status().workers[0].memory_bytes;
  }
  const ServiceStatus status = service_->status();
  EXPECT_EQ(status.workers[0].restarts, 0);
  EXPECT_LT(status.workers[0].memory_bytes, early + (std::uint64_t{64} << 20));
}

}  // namespace
}  // namespace tritium::test
