// A server to be killed: takes up a data folder, submits jobs that are not there yet, says what happens, and ends when all are finished.
//
//   job_server DATA WORKER MODEL JOBS STEPS [drain]
//
// On standard error one line per event, "ID STATE", "ID STAGE STEP/OF"; at the end one line per job on standard output,
// "ID STATE ATTEMPT VIDEO". With "drain" it stops gracefully on SIGTERM.
#include "job/service.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

volatile std::sig_atomic_t terminated = 0;

void say(const tritium::JobEvent& event) {
  using Kind = tritium::JobEvent::Kind;
  const tritium::Job& job = *event.job;
  if (event.kind == Kind::state)
    std::fprintf(stderr, "%s %s\n", job.id.c_str(), job_state_name(job.state));
  else if (event.kind == Kind::progress)
    std::fprintf(stderr, "%s %s %d/%d\n", job.id.c_str(), job.progress.stage.c_str(), job.progress.step, job.progress.of);
}

tritium::JobSpec spec(int index, int steps) {
  tritium::JobSpec out;
  out.id = "job-" + std::to_string(index);
  out.request.prompt = "a red circle moves to the right on a blue background with a low tone";
  out.request.frames = 22;
  out.request.steps = steps;
  out.request.seed = static_cast<std::uint64_t>(index + 1);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  tritium::ServiceOptions options;
  options.data = argv[1];
  options.worker_command = {argv[2], "worker"};
  options.engine.model = argv[3];
  options.engine.device = "CPU";
  options.checkpoint_steps = 2;
  const int jobs = std::atoi(argv[4]), steps = std::atoi(argv[5]);
  std::signal(SIGTERM, [](int) { terminated = 1; });
  auto started = tritium::JobService::start(options);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.error().text().c_str());
    return 1;
  }
  tritium::JobService& service = **started;
  const auto subscription = service.subscribe("", "", say);
  for (int i = 0; i < jobs; ++i) {
    const auto submitted = service.submit(spec(i, steps));
    if (!submitted.ok() && submitted.error().code != tritium::ErrorCode::conflict) {
      std::fprintf(stderr, "%s\n", submitted.error().text().c_str());
      return 1;
    }
  }
  std::fprintf(stderr, "submitted\n");
  for (int i = 0; i < jobs; ++i) {
    const std::string id = "job-" + std::to_string(i);
    for (;;) {
      if (terminated != 0) {
        service.stop(0);
        return 0;
      }
      const auto job = service.wait(id, "", std::chrono::milliseconds(50));
      if (!job.ok()) return 1;
      if (!is_terminal(job->state)) continue;
      std::printf("%s %s %d %s\n", id.c_str(), job_state_name(job->state), job->attempt,
                  job->outputs.empty() ? "" : job->outputs[0].video.c_str());
      break;
    }
  }
  return 0;
}
