#include "server/native/video_texts.h"

#include "server/native/answers.h"

namespace tritium::server::native {

std::string VideoTexts::of(const Job& job) {
  if (!is_terminal(job.state)) return dump(video_json(job, model_));
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = texts_.find(job.sequence); known != texts_.end()) return known->second;
  }
  std::string text = dump(video_json(job, model_));
  const std::scoped_lock lock(mutex_);
  if (!texts_.emplace(job.sequence, text).second) return text;
  order_.push_back(job.sequence);
  if (order_.size() > kept_) {
    texts_.erase(order_.front());
    order_.pop_front();
  }
  return text;
}

}  // namespace tritium::server::native
