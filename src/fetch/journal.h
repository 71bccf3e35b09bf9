// What of an unfinished download is known to be right, beside it as NAME.tritium-part.json: one JSON object per line, the first about the
// file, each of the others about a range whose bytes were on the disk before the line was written. A line that was cut off or damaged
// counts as absent, and every range is hashed again before it is believed.
#pragma once

#include "fetch/http.h"

#include <tritium/result.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace tritium::fetch {

struct JournalHead {
  std::uint64_t size = 0;  // of the complete file
  std::string url;         // where it comes from, before redirects
  std::string identity;    // HttpHead::identity there
  friend bool operator==(const JournalHead&, const JournalHead&) = default;
};

struct HashedRange {
  ByteRange range;
  std::string sha256;
  friend bool operator==(const HashedRange&, const HashedRange&) = default;
};

struct JournalContent {
  JournalHead head;
  std::vector<HashedRange> ranges;  // within the size, none overlapping another
};

// None: no file, or its first line cannot be understood.
std::optional<JournalContent> read_journal(const std::filesystem::path& path);
std::optional<JournalContent> parse_journal(std::string_view text);

class Journal {
 public:
  Journal() = default;
  Journal(Journal&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  Journal& operator=(Journal&& other) noexcept;
  ~Journal();

  // Replaces whatever is there, atomically.
  static Result<Journal> create(const std::filesystem::path& path, const JournalContent& content);
  // On the disk when it returns. Precondition: the bytes themselves are.
  Result<void> append(const HashedRange& range);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace tritium::fetch
