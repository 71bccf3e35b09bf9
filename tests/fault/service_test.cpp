// The service of jobs with real workers: what callers are promised, whatever fails.
#include "base/files.h"
#include "media/reader.h"
#include "support/service_fixture.h"

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

}  // namespace
}  // namespace tritium::test
