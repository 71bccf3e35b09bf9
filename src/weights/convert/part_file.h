// A large file that is written in pieces, at any offset, by several threads, and can be continued after any interruption.
//
//   <target>.tritium-part        the data so far, in its final place and length; locked while somebody writes
//   <target>.tritium-part.json   a journal: one JSON object a line. First the fingerprint of what is being made, then one line for each
//                                unit that is complete and on disk.
//
// A unit is whatever the caller says: of it all bytes are there or it counts as not begun.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tritium {

// What a file is made of: a change of any of these makes what exists useless.
struct Fingerprint {
  std::string source, options, layout;  // texts, the last one a hash
};

class PartFile {
 public:
  // Continues what is there if its fingerprint is the same, else begins anew. Errors: usage (the target exists and overwrite is false),
  // failure (somebody else writes it), does_not_fit (too little room on the disk; need and have).
  static Result<PartFile> open(const std::filesystem::path& target, std::uint64_t file_bytes, const Fingerprint& fingerprint,
                               bool overwrite);
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();  // what has been written stays, to be continued

  // Units that were complete when the file was opened, with the text given to finish().
  [[nodiscard]] const std::map<std::string, std::string>& finished() const { return finished_; }
  // Why something that was there could not be continued; empty: nothing was there, or it was.
  [[nodiscard]] const std::string& notice() const { return notice_; }

  // Thread safe. Precondition: within the file.
  Result<void> write(std::uint64_t offset, std::span<const std::uint8_t> bytes) const;
  Result<void> write(std::uint64_t offset, std::string_view text) const;

  // All bytes of the unit have been written. `note` comes back from finished() in a later run. The journal follows the data in steps of
  // some megabytes or tenths of a second: a unit is only there once its data is on the disk.
  Result<void> finish(const std::string& unit, const std::string& note, std::uint64_t bytes);
  Result<void> flush();

  // Everything to disk, the final name, no journal. Error usage: the target has appeared meanwhile and overwrite is false.
  Result<void> commit();

  static std::filesystem::path part_path(const std::filesystem::path& target);
  static std::filesystem::path journal_path(const std::filesystem::path& target);

 private:
  explicit PartFile(std::filesystem::path target) : target_(std::move(target)) {}
  Result<void> lock();
  Result<void> take_journal(const Fingerprint& fingerprint);
  Result<void> begin(std::uint64_t file_bytes, const Fingerprint& fingerprint);
  Result<void> check_room(std::uint64_t file_bytes) const;
  Result<void> append(const std::string& text);

  std::filesystem::path target_;
  int part_ = -1, journal_ = -1;
  bool overwrite_ = false, continued_ = false;
  std::map<std::string, std::string> finished_;
  std::string notice_, waiting_;  // waiting_: journal lines of units whose data may not be on the disk yet
  std::uint64_t waiting_bytes_ = 0;
  double flushed_ = 0;  // when, on the monotonic clock
};

}  // namespace tritium
