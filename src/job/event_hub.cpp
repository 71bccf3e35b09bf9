#include "job/event_hub.h"

#include <algorithm>

namespace tritium {

struct EventHub::Subscriber {
  std::string owner, id;
  JobService::EventCallback callback;
  std::recursive_mutex calling;  // held during a call: whoever drops the subscription waits for its end, unless it is the callback itself
  bool dropped = false;
};

struct EventHub::List {
  std::mutex mutex;
  std::vector<std::shared_ptr<Subscriber>> subscribers;
};

class EventHub::Handle final : public JobService::Subscription {
 public:
  Handle(std::shared_ptr<List> list, std::shared_ptr<Subscriber> subscriber) : list_(std::move(list)), subscriber_(std::move(subscriber)) {}
  ~Handle() override {
    {
      const std::lock_guard lock(list_->mutex);
      std::erase(list_->subscribers, subscriber_);
    }
    const std::lock_guard lock(subscriber_->calling);
    subscriber_->dropped = true;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  std::shared_ptr<List> list_;
  std::shared_ptr<Subscriber> subscriber_;
};

EventHub::EventHub(std::uint64_t first_id) : list_(std::make_shared<List>()), next_id_(first_id), thread_([this] { deliver(); }) {}

EventHub::~EventHub() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EventHub::publish(JobEvent::Kind kind, std::shared_ptr<const Job> job, std::shared_ptr<const std::string> preview) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({next_id_++, kind, std::move(job), std::move(preview)});
  }
  changed_.notify_one();
}

std::unique_ptr<JobService::Subscription> EventHub::subscribe(const std::string& owner, const std::string& id,
                                                              JobService::EventCallback callback) {
  auto subscriber = std::make_shared<Subscriber>();
  subscriber->owner = owner;
  subscriber->id = id;
  subscriber->callback = std::move(callback);
  const std::lock_guard lock(list_->mutex);
  list_->subscribers.push_back(subscriber);
  return std::make_unique<Handle>(list_, std::move(subscriber));
}

void EventHub::deliver() {
  for (;;) {
    JobEvent event;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      event = std::move(waiting_.front());
      waiting_.pop_front();
    }
    std::vector<std::shared_ptr<Subscriber>> hearing;
    {
      const std::lock_guard lock(list_->mutex);
      for (const auto& s : list_->subscribers)
        if (s->owner == event.job->spec.owner && (s->id.empty() || s->id == event.job->id)) hearing.push_back(s);
    }
    for (const auto& subscriber : hearing) {
      const std::lock_guard lock(subscriber->calling);
      if (!subscriber->dropped) subscriber->callback(event);
    }
  }
}

}  // namespace tritium
