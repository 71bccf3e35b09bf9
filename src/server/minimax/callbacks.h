// callback_url: who named one is told when the task's state changes. A message that cannot be delivered is tried three times; the query
// stays the place to look.
#pragma once

#include "job/service.h"
#include "server/input/media_input.h"
#include "server/minimax/links.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tritium::server::minimax {

class Callbacks {
 public:
  // Owners that ever named an address are listed in a file in `folder`, so that a server that starts again follows their tasks.
  Callbacks(const std::filesystem::path& folder, JobService& service, const Links& links, UrlPolicy policy);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // The address has to give back a challenge within three seconds, so that nobody has a server send messages to somebody else.
  // Errors (usage, field "callback_url"): unreachable, not allowed, another answer.
  Result<void> prove(const std::string& url) const;
  // Listens to this owner's tasks from now on. Error: the list cannot be written.
  Result<void> follow(const std::string& owner);

 private:
  struct Message {
    std::string url, document;
    int tries = 0;
    double not_before = 0;  // seconds, monotonic
  };
  void listen(const std::string& owner);
  void on_event(const JobEvent& event);
  void deliver();

  std::filesystem::path file_;
  JobService& service_;
  const Links& links_;
  UrlPolicy policy_;
  std::mutex owners_mutex_;
  std::map<std::string, std::unique_ptr<JobService::Subscription>> owners_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<Message> waiting_;
  bool over_ = false;
  std::thread thread_;  // started with the first owner
};

}  // namespace tritium::server::minimax
