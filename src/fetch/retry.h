// What the end of a request means: try again, give this address up, or take it that the file has changed.
#pragma once

#include "fetch/transfer.h"

namespace tritium::fetch {

struct Verdict {
  enum class Kind { retry, failed, absent, other_size } kind = Kind::retry;
  std::string reason, hint;
  double wait = 0;                     // retry: as the server asks, seconds
  std::optional<std::uint64_t> total;  // other_size: the server's
};

// Of a request that did not bring all it should. `size`: of the whole file as we know it.
Verdict judge(const HttpOutcome& outcome, std::uint64_t size);

// Seconds before retry number `failures` (from 1).
double pause_before(int failures, double first_pause, double asked);

// Waits in slices; false when `keep_going` said no.
bool wait_for(double seconds, const std::function<bool()>& keep_going);

Error address_error(const TransferTarget& target, const std::string& reason, const std::string& hint);

}  // namespace tritium::fetch
