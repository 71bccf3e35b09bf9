#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace tritium {
namespace {

Result<void> guarded(const std::function<Result<void>(std::int64_t)>& work, std::int64_t i) {
  try {
    return work(i);
  } catch (const std::bad_alloc&) { return Error{ErrorCode::does_not_fit, "out of memory", "", ""}; }
}

}  // namespace

Result<void> for_each_parallel(std::int64_t count, int threads, const std::function<Result<void>(std::int64_t)>& work) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, std::min<std::int64_t>(count, threads)));
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Error> first;
  std::int64_t first_item = count;
  const auto run = [&] {
    for (std::int64_t i = next++; i < count && !failed; i = next++) {
      Result<void> done = guarded(work, i);
      if (done.ok()) continue;
      const std::lock_guard lock(mutex);
      failed = true;
      if (i < first_item) {
        first_item = i;
        first = std::move(done).error();
      }
    }
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(run);
  } catch (const std::system_error&) {}  // fewer threads than wanted do as well
  run();
  for (std::thread& helper : helpers) helper.join();
  if (first) return *first;
  return {};
}

}  // namespace tritium
