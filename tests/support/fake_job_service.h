// A service in memory: jobs go on when the test says so, and make the files the test gives them. For tests of what stands in front of it.
#pragma once

#include "job/service.h"
#include "unit/temp_folder.h"

#include <condition_variable>
#include <list>
#include <mutex>

namespace tritium::test {

class FakeJobService : public JobService {
 public:
  // Files of jobs lie below `options.data`, or in a folder of its own.
  explicit FakeJobService(ServiceOptions options = {});
  ~FakeJobService() override;

  // What happens next. The functions return the job as it is then; the job must be there, in a state that allows it.
  Job run(const std::string& id, const std::string& worker = "worker-0");  // queued → running, the next attempt
  Job progress(const std::string& id, const Progress& progress, int output = 0);
  void preview(const std::string& id, std::string jpeg);
  Job complete(const std::string& id, std::string_view video = kVideo, std::string_view thumbnail = kThumbnail);
  Job fail(const std::string& id, JobError error);
  Job requeue(const std::string& id, JobError why);  // as after the death of a worker
  Job stop_running(const std::string& id);           // a running job that was asked to stop does so
  // A job that is submitted completes at once.
  void complete_at_once(bool on);
  // The next plan() or submit() fails so.
  void refuse_next(Error error);
  void set_status(ServiceStatus status);  // but queued and running, which are counted
  void set_model_json(std::string json);

  [[nodiscard]] std::vector<Job> jobs() const;  // oldest first
  [[nodiscard]] std::vector<Request> planned() const;
  [[nodiscard]] std::size_t subscriptions() const;
  [[nodiscard]] int freed() const;  // calls of free_memory()
  [[nodiscard]] std::optional<double> stopped() const;

  // The values of the released model, without reading one: sizes, lengths, steps and modes are decided as the engine does it.
  Result<Plan> plan(const Request& request) override;
  // Copies the request's files, as the service keeps links to them.
  Result<Submitted> submit(const JobSpec& spec) override;
  Result<Job> get(const std::string& id, const std::string& owner) override;
  Result<JobPage> list(const JobQuery& query) override;
  // A running job only gets cancel_requested, until stop_running().
  Result<Job> cancel(const std::string& id, const std::string& owner) override;
  Result<Job> remove(const std::string& id, const std::string& owner) override;
  Result<Job> wait(const std::string& id, const std::string& owner, std::chrono::milliseconds time) override;
  std::unique_ptr<Subscription> subscribe(const std::string& owner, const std::string& id, EventCallback callback) override;
  [[nodiscard]] ServiceStatus status() override;
  [[nodiscard]] const ServiceOptions& options() const override { return options_; }
  [[nodiscard]] std::string model_json() const override;
  void free_memory() override;
  void stop(double drain_seconds) override;

  // Bytes that stand for files: nobody decodes them here.
  static constexpr std::string_view kVideo{
      "\0\0\0\x18"
      "ftypmp42 not really a video, but long enough to ask for ranges of it",
      72};
  static constexpr std::string_view kThumbnail = "\xff\xd8\xff\xe0 not really a JPEG \xff\xd9";

 private:
  struct Listener;
  class Listening;
  Job* find(const std::string& id);
  Job& known(const std::string& id);
  void check_state(const Job& job, JobState wanted) const;
  JobOutput write_output(const Job& job, int index, std::string_view video, std::string_view thumbnail) const;
  Job finish(Job& job, JobState state);
  void place_in_queue();
  void tell(JobEvent::Kind kind, const Job& job, std::shared_ptr<const std::string> preview = {});

  TempFolder folder_;
  ServiceOptions options_;
  mutable std::recursive_mutex mutex_;  // of everything below; callbacks are called under it
  std::condition_variable_any changed_;
  std::list<Job> jobs_;
  std::list<std::shared_ptr<Listener>> listeners_;
  std::vector<Request> planned_;
  std::optional<Error> refusal_;
  ServiceStatus status_;
  std::string model_json_;
  std::optional<double> stopped_;
  std::uint64_t next_event_ = 1;
  std::int64_t next_sequence_ = 1;
  UnixMillis clock_ = 1'700'000'000'000;  // grows by a second with every change
  int freed_ = 0;
  bool complete_at_once_ = false;
};

}  // namespace tritium::test
