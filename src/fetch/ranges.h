// Which bytes of a file are there. Not for several threads at once.
#pragma once

#include "fetch/http.h"

#include <map>
#include <vector>

namespace tritium::fetch {

class Ranges {
 public:
  // Overlaps are merged. An empty range is ignored.
  void add(ByteRange range);
  [[nodiscard]] bool overlaps(ByteRange range) const;
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::uint64_t prefix() const;                           // everything below this is there
  [[nodiscard]] std::vector<ByteRange> gaps(std::uint64_t size) const;  // in order, within [0, size)

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // by first byte; neither touching nor overlapping
};

}  // namespace tritium::fetch
