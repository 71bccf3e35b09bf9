// A service over the demonstration model with worker processes of the built program, in a folder of the test's own.
#pragma once

#include "job/service.h"
#include "job/service_impl.h"
#include "support/build.h"
#include "support/process.h"
#include "unit/temp_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <csignal>
#include <iterator>
#include <sstream>

namespace tritium::test {

class ServiceFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.engine.model = std::filesystem::path(TRITIUM_SOURCE_DIR) / "models/demo";
    options_.engine.device = "CPU";
    options_.data = folder_.path() / "data";
    options_.worker_command = {tritium_binary(), "worker"};
  }

  void start() {
    auto started = JobService::start(options_);
    ASSERT_TRUE(started.ok()) << started.error().text();
    service_ = std::move(*started);
  }

  // Short enough for a tenth of a second, long enough to be caught in the middle when it has more steps.
  [[nodiscard]] static JobSpec spec(int steps = 2, std::uint64_t seed = 1) {
    JobSpec out;
    out.request.prompt = "a red circle moves to the right on a blue background with a low tone";
    out.request.frames = 22;
    out.request.steps = steps;
    out.request.seed = seed;
    out.dialect = "videos";
    return out;
  }
  // Takes minutes.
  [[nodiscard]] static JobSpec endless() {
    JobSpec out = spec(1000);
    out.request.frames = 362;
    return out;
  }

  Job submit(const JobSpec& spec) {
    auto out = service_->submit(spec);
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? out->job : Job{};
  }
  Job get(const std::string& id) {
    auto out = service_->get(id, "");
    EXPECT_TRUE(out.ok()) << out.error().text();
    return out.ok() ? *out : Job{};
  }
  Job finish(const std::string& id) {
    auto out = service_->wait(id, "", std::chrono::minutes(2));
    EXPECT_TRUE(out.ok()) << out.error().text();
    if (!out.ok()) return {};
    EXPECT_TRUE(is_terminal(out->state)) << job_state_name(out->state);
    return *out;
  }
  // Until `done` holds for the job; false when time ran out.
  bool wait_until(const std::string& id, const std::function<bool(const Job&)>& done) {
    for (int i = 0; i < 6000; ++i) {
      if (done(get(id))) return true;
      ::usleep(10'000);
    }
    return false;
  }
  bool wait_for_stage(const std::string& id, const std::string& stage) {
    return wait_until(id, [&](const Job& job) { return is_terminal(job.state) || (job.progress.stage == stage && job.progress.of > 0); });
  }
  // The process of the worker that makes something: it has used the most processor time, the planner next to none.
  [[nodiscard]] pid_t worker_process() const {
    pid_t out = -1;
    std::uint64_t most = 0;
    for (const pid_t child : children_of(::getpid())) {
      std::ifstream in("/proc/" + std::to_string(child) + "/stat");
      std::string text;
      std::getline(in, text);
      std::istringstream fields(text.substr(text.rfind(')') + 2));
      std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
      if (words.size() < 13) continue;
      const std::uint64_t ticks = std::stoull(words[11]) + std::stoull(words[12]);
      if (ticks >= most) most = ticks, out = child;
    }
    return out;
  }

  MemoryFolder folder_;
  ServiceOptions options_;
  std::unique_ptr<JobService> service_;
};

}  // namespace tritium::test
