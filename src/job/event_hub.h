// Tells subscribers what happens to jobs, in order, on a thread of its own.
#pragma once

#include "job/service.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tritium {

class EventHub {
 public:
  // `first_id`: no event was ever given this number or a higher one.
  explicit EventHub(std::uint64_t first_id);
  ~EventHub();  // what was published is still delivered; outlives no subscription's owner, see subscribe()
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  void publish(JobEvent::Kind kind, std::shared_ptr<const Job> job, std::shared_ptr<const std::string> preview = {});

  // As JobService::subscribe. A subscription may outlive the hub; it then hears nothing more.
  std::unique_ptr<JobService::Subscription> subscribe(const std::string& owner, const std::string& id, JobService::EventCallback callback);

 private:
  struct Subscriber;
  struct List;
  class Handle;
  void deliver();

  std::shared_ptr<List> list_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<JobEvent> waiting_;
  std::uint64_t next_id_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace tritium
