// Brings what is missing of one file from one address: several ranged requests at once where the server can do that, one stream otherwise.
#pragma once

#include "fetch/part_file.h"
#include "fetch/progress.h"
#include "fetch/rate_limiter.h"

namespace tritium::fetch {

struct TransferSettings {
  HttpSettings http;
  int connections = 4;
  int retries = 8;           // in a row without a byte, per connection
  double first_pause = 0.5;  // seconds before a retry; doubles each time, up to a minute, less a random part
};

// What one attempt was made for.
struct TransferTarget {
  std::string name;  // for messages
  std::string url;
  bool size_fixed = false;  // the manifest gives the size: another one is an error, not a change
  bool hash_known = false;  // bytes of several servers may be put together: the hash of the whole is checked in the end
};

enum class TransferEnd {
  complete,
  changed,  // the server has another version now: start over
  failed,   // this address cannot give the file
  fatal,    // nothing can: the disk, or the user
};

struct TransferResult {
  TransferEnd end = TransferEnd::complete;
  Error error;          // why, unless complete
  bool absent = false;  // failed: there is no such file
};

// Parts of a file that are hashed and entered into the journal as one: 1/64 of it, within 256 KiB and 16 MiB, a power of two.
std::uint64_t chunk_bytes(std::uint64_t size);

TransferResult transfer(PartFile& part, const TransferTarget& target, const TransferSettings& settings, RateLimiter& limiter,
                        Reporter& reporter, const CancelToken* cancel);

// Asks for the size of a file. `absent` and `error` as above.
struct SizeAnswer {
  std::optional<std::uint64_t> size;
  TransferResult failure;
};
SizeAnswer ask_size(const TransferTarget& target, const TransferSettings& settings, Reporter& reporter, const CancelToken* cancel);

}  // namespace tritium::fetch
