// What a caller hears while files are fetched.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tritium::fetch {

struct FetchProgress {
  std::string stage;                  // "check" (of what is there), "fetch" or "hash"
  std::string file;                   // path in the manifest
  std::size_t index = 0, of = 0;      // of the file, from 1
  std::uint64_t done = 0, total = 0;  // bytes of all files; total counts those whose size is known
  double bytes_per_second = 0;
  double eta_seconds = -1;  // negative while unknown
};

// Never called by two threads at once.
struct FetchHooks {
  std::function<void(const FetchProgress&)> progress;  // about five times a second
  std::function<void(const std::string&)> notice;      // something to know that is not an error: a retry, a mirror, a start from scratch
};

// Collects what the threads of a download have to tell.
class Reporter {
 public:
  Reporter(const FetchHooks& hooks, std::size_t files, std::uint64_t total);
  ~Reporter();  // tells the last state
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void begin_file(const std::string& path);
  void begin_stage(const std::string& stage);
  void end_file(std::uint64_t size);
  void add_total(std::uint64_t bytes);
  void add_done(std::uint64_t bytes) { file_done_ += bytes; }
  void set_done(std::uint64_t bytes) { file_done_ = bytes; }
  void received(std::uint64_t bytes) { received_ += bytes; }  // from the network
  [[nodiscard]] std::uint64_t received() const { return received_; }
  void notice(const std::string& text);

 private:
  void tell();
  void run(const std::stop_token& stop);

  const FetchHooks& hooks_;
  std::mutex mutex_;
  FetchProgress state_;
  std::uint64_t before_ = 0;  // of the files that are complete
  std::atomic<std::uint64_t> file_done_{0}, received_{0};
  struct Sample {
    double at;
    std::uint64_t received;
  };
  std::deque<Sample> samples_;  // of the last seconds
  std::jthread thread_;
};

}  // namespace tritium::fetch
