#include "fetch/progress.h"

#include "base/system.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>

namespace tritium::fetch {
namespace {

constexpr std::chrono::milliseconds kInterval{200};
constexpr double kWindowSeconds = 8;  // over which the speed is taken

}  // namespace

Reporter::Reporter(const FetchHooks& hooks, std::size_t files, std::uint64_t total) : hooks_(hooks) {
  state_.of = files;
  state_.total = total;
  if (hooks_.progress) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Reporter::~Reporter() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  const std::lock_guard lock(mutex_);
  tell();
}

void Reporter::run(const std::stop_token& stop) {
  std::condition_variable_any wake;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake.wait_for(lock, stop, kInterval, [] { return false; });
    if (!stop.stop_requested()) tell();
  }
}

void Reporter::tell() {
  if (state_.file.empty()) return;
  const double now = monotonic_seconds();
  samples_.push_back({now, received_});
  while (samples_.size() > 2 && now - samples_.front().at > kWindowSeconds) samples_.pop_front();
  const double seconds = now - samples_.front().at;
  state_.bytes_per_second = seconds > 0 ? static_cast<double>(samples_.back().received - samples_.front().received) / seconds : 0;
  state_.done = std::min(before_ + file_done_, std::max(state_.total, before_));
  state_.eta_seconds =
      state_.bytes_per_second > 0 ? static_cast<double>(state_.total - std::min(state_.done, state_.total)) / state_.bytes_per_second : -1;
  hooks_.progress(state_);
}

void Reporter::begin_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  state_.file = path;
  state_.stage = "check";
  ++state_.index;
}

void Reporter::begin_stage(const std::string& stage) {
  const std::lock_guard lock(mutex_);
  state_.stage = stage;
}

void Reporter::end_file(std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  file_done_ = 0;
  before_ += size;
}

void Reporter::add_total(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  state_.total += bytes;
}

void Reporter::notice(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (hooks_.notice) hooks_.notice(text);
}

}  // namespace tritium::fetch
