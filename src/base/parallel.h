// A loop over several threads whose first error ends it.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <functional>

namespace tritium {

// Calls work(i) for every i in [0, count), in order of i but several at once; with one thread or one item, right here. After an error no
// new item begins, and the error of the lowest item is returned.
Result<void> for_each_parallel(std::int64_t count, int threads, const std::function<Result<void>(std::int64_t)>& work);

}  // namespace tritium
