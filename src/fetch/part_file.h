// A file that is being fetched: its bytes in NAME.tritium-part, what is known of them in the journal beside it. For several threads.
#pragma once

#include "base/cancel.h"
#include "base/hash.h"
#include "fetch/journal.h"
#include "fetch/ranges.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tritium::fetch {

class PartFile {
 public:
  // Takes the part file for this process (Error: another one has it) and looks at the journal; believes nothing of it yet.
  static Result<std::unique_ptr<PartFile>> open(const std::filesystem::path& target, std::uint64_t size);
  static std::filesystem::path part_path(const std::filesystem::path& target);
  static std::filesystem::path journal_path(const std::filesystem::path& target);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  // Hashes what the journal lists and keeps what is right. `checked` gets the bytes of each range looked at.
  Result<void> check_journal(const CancelToken* cancel, const std::function<void(std::uint64_t)>& checked);

  // What the bytes come from, as the journal has it; none while nothing is known.
  [[nodiscard]] std::optional<JournalHead> head() const;
  // From now on they come from here. What is there is kept.
  Result<void> set_head(JournalHead head);
  // Forgets every byte.
  Result<void> reset();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t verified_bytes() const;
  [[nodiscard]] std::vector<ByteRange> gaps() const;

  Result<void> write(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  // The range was written with these bytes: flushes them, then enters them into the journal. Precondition: set_head() was called.
  Result<void> commit(const HashedRange& range);

  // When everything is there: the hash of the whole file. Much of it was computed while the parts came in.
  Result<std::string> whole_sha256(const CancelToken* cancel, const std::function<void(std::uint64_t)>& hashed);
  // Flushes, renames to the target and removes the journal.
  Result<void> publish();

 private:
  PartFile(std::filesystem::path target, std::uint64_t size, int fd);
  Result<void> rewrite_journal();
  void follow_prefix(const std::stop_token& stop);
  void start_hashing();
  void stop_hashing();
  Result<void> hash_until(std::uint64_t end, const std::function<bool()>& keep_going, const std::function<void(std::uint64_t)>& hashed);

  std::filesystem::path target_;
  std::uint64_t size_;
  int fd_;

  mutable std::mutex mutex_;  // of what follows
  std::optional<JournalContent> content_;
  Ranges verified_;
  Journal journal_;
  std::condition_variable_any grown_;

  Sha256 whole_;  // of [0, hashed_); of the hashing thread while it runs
  std::uint64_t hashed_ = 0;
  std::jthread hashing_;
};

}  // namespace tritium::fetch
