// The video objects of finished jobs as text: they never change, and clients that show lists ask for the same ones again and again.
#pragma once

#include "job/job.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tritium::server::native {

class VideoTexts {
 public:
  // `model`: as for video_json(); the texts of the last `kept` jobs stay in memory, some 3 KB each.
  explicit VideoTexts(std::string model, std::size_t kept = 1000) : model_(std::move(model)), kept_(kept) {}

  // video_json() of the job, dumped. From any thread.
  [[nodiscard]] std::string of(const Job& job);

 private:
  std::string model_;
  std::size_t kept_;
  std::mutex mutex_;                                     // guards what follows
  std::unordered_map<std::int64_t, std::string> texts_;  // by Job::sequence: an id may be used again after its job was deleted
  std::deque<std::int64_t> order_;                       // oldest first
};

}  // namespace tritium::server::native
