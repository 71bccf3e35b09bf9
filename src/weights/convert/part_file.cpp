#include "weights/convert/part_file.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kFlushBytes = 32u << 20;
constexpr double kFlushSeconds = 0.3;
constexpr std::uint64_t kReserve = 16u << 20;  // on the disk, beyond the file itself
constexpr int kJournalVersion = 1;

Error failed(const char* action, const fs::path& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return Error{full ? ErrorCode::does_not_fit : ErrorCode::failure,
               fmt::format("cannot {} '{}': {}", action, path.string(), system_message(code)), "target",
               full ? "free some space and run the same command again, or choose another folder" : ""};
}

Result<void> write_all(int fd, const fs::path& path, std::span<const std::uint8_t> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = offset < 0 ? ::write(fd, bytes.data(), bytes.size()) : ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    if (offset >= 0) offset += n;
  }
  return {};
}

std::span<const std::uint8_t> as_bytes(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::string header_line(const Fingerprint& f) {
  return nlohmann::ordered_json{{"tritium_part", kJournalVersion}, {"source", f.source}, {"options", f.options}, {"layout", f.layout}}
             .dump() +
         "\n";
}

// What differs between a journal and what is wanted; empty: nothing.
std::string difference(const nlohmann::json& header, const Fingerprint& wanted) {
  const auto is = [&](const char* key, const std::string& value) {
    const auto found = header.find(key);
    return found != header.end() && found->is_string() && found->get<std::string>() == value;
  };
  if (!header.is_object() || header.value("tritium_part", nlohmann::json()) != kJournalVersion) return "its journal is not readable";
  if (!is("source", wanted.source)) return "the source has changed since";
  if (!is("options", wanted.options)) return "it was made with other options";
  if (!is("layout", wanted.layout)) return "another version of this program made it";
  return {};
}

}  // namespace

fs::path PartFile::part_path(const fs::path& target) { return target.string() + ".tritium-part"; }
fs::path PartFile::journal_path(const fs::path& target) { return target.string() + ".tritium-part.json"; }

PartFile::PartFile(PartFile&& other) noexcept
    : target_(std::move(other.target_)),
      part_(std::exchange(other.part_, -1)),
      journal_(std::exchange(other.journal_, -1)),
      overwrite_(other.overwrite_),
      continued_(other.continued_),
      finished_(std::move(other.finished_)),
      notice_(std::move(other.notice_)),
      waiting_(std::move(other.waiting_)),
      waiting_bytes_(other.waiting_bytes_),
      flushed_(other.flushed_) {}

PartFile::~PartFile() {
  if (journal_ >= 0) {
    (void)flush();
    ::close(journal_);
  }
  if (part_ >= 0) ::close(part_);
}

Result<PartFile> PartFile::open(const fs::path& target, std::uint64_t file_bytes, const Fingerprint& fingerprint, bool overwrite) {
  PartFile out(target);
  out.overwrite_ = overwrite;
  std::error_code ignored;
  if (fs::is_directory(target, ignored))
    return Error{ErrorCode::usage, fmt::format("'{}' is a folder", target.string()), "target", "name a file"};
  if (fs::exists(target, ignored) && !overwrite)
    return Error{ErrorCode::usage, fmt::format("'{}' exists already", target.string()), "target", "give another name, or --overwrite"};
  TRITIUM_TRY(out.lock());
  TRITIUM_TRY(out.take_journal(fingerprint));
  TRITIUM_TRY(out.check_room(file_bytes));
  TRITIUM_TRY(out.begin(file_bytes, fingerprint));
  return out;
}

Result<void> PartFile::lock() {
  const fs::path path = part_path(target_);
  for (;;) {
    part_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (part_ < 0) return failed("write", path, errno);
    if (::flock(part_, LOCK_EX | LOCK_NB) != 0)
      return Error{ErrorCode::failure, fmt::format("'{}' is being written by another process", target_.string()), "target",
                   "wait until it is done, or choose another name"};
    // Its last writer may have renamed it between our opening and our locking it.
    struct stat mine {
    }, there{};
    if (::fstat(part_, &mine) == 0 && ::stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
      return {};
    ::close(std::exchange(part_, -1));
  }
}

Result<void> PartFile::take_journal(const Fingerprint& fingerprint) {
  struct stat info {};
  const bool something = ::fstat(part_, &info) == 0 && info.st_size > 0;
  std::error_code ignored;
  if (!something || !fs::exists(journal_path(target_), ignored)) return {};
  auto text = read_file(journal_path(target_));
  const std::string all = text.ok() ? std::move(text).value() : std::string();
  std::size_t at = 0;
  bool first = true;
  for (std::size_t end = all.find('\n'); end != std::string::npos;
       at = end + 1, end = all.find('\n', at)) {  // a line without an end is torn
    const auto line = nlohmann::json::parse(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end),
                                            nullptr, false);
    if (std::exchange(first, false)) {
      notice_ = difference(line, fingerprint);
      if (!notice_.empty()) break;
      continued_ = true;
      continue;
    }
    if (!line.is_object() || !line.contains("done") || !line["done"].is_string()) break;
    const auto note = line.find("note");
    finished_[line["done"].get<std::string>()] = note != line.end() && note->is_string() ? note->get<std::string>() : "";
  }
  if (!continued_) {
    notice_ = fmt::format("'{}' cannot be continued: {}; starting over", part_path(target_).string(),
                          notice_.empty() ? "its journal is not readable" : notice_);
    finished_.clear();
  }
  return {};
}

Result<void> PartFile::check_room(std::uint64_t file_bytes) const {
  struct statvfs disk {};
  struct stat part {};
  if (::fstatvfs(part_, &disk) != 0 || ::fstat(part_, &part) != 0) return {};  // unknown: writing will tell
  const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  const std::uint64_t own = static_cast<std::uint64_t>(part.st_blocks) * 512;
  if (file_bytes + kReserve <= free + own) return {};
  return Error{
      ErrorCode::does_not_fit,
      fmt::format("'{}' needs {}, {} are free there", target_.string(), format_bytes(file_bytes + kReserve), format_bytes(free + own)),
      "target", "free some space or choose another folder"};
}

Result<void> PartFile::begin(std::uint64_t file_bytes, const Fingerprint& fingerprint) {
  const fs::path part = part_path(target_), journal = journal_path(target_);
  if (!continued_ && ::ftruncate(part_, 0) != 0) return failed("write", part, errno);  // what lies between tensors must read as zero
  if (::ftruncate(part_, static_cast<off_t>(file_bytes)) != 0) return failed("write", part, errno);
  if (::fallocate(part_, 0, 0, static_cast<off_t>(file_bytes)) != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
    return failed("write", part, errno);
  // Written anew also when continued, so that a torn last line does not stay in the middle.
  std::string text = header_line(fingerprint);
  for (const auto& [unit, note] : finished_) text += nlohmann::ordered_json{{"done", unit}, {"note", note}}.dump() + "\n";
  TRITIUM_TRY(write_file_atomically(journal, text));
  journal_ = ::open(journal.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (journal_ < 0) return failed("write", journal, errno);
  return {};
}

Result<void> PartFile::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) const {
  return write_all(part_, part_path(target_), bytes, static_cast<std::int64_t>(offset));
}
Result<void> PartFile::write(std::uint64_t offset, std::string_view text) const { return write(offset, as_bytes(text)); }

Result<void> PartFile::finish(const std::string& unit, const std::string& note, std::uint64_t bytes) {
  waiting_ += nlohmann::ordered_json{{"done", unit}, {"note", note}}.dump() + "\n";
  waiting_bytes_ += bytes;
  return waiting_bytes_ >= kFlushBytes || monotonic_seconds() - flushed_ >= kFlushSeconds ? flush() : Result<void>();
}

Result<void> PartFile::flush() {
  if (waiting_.empty()) return {};
  if (::fdatasync(part_) != 0) return failed("write", part_path(target_), errno);
  TRITIUM_TRY(append(std::exchange(waiting_, {})));
  waiting_bytes_ = 0;
  flushed_ = monotonic_seconds();
  return {};
}

Result<void> PartFile::append(const std::string& text) {
  TRITIUM_TRY(write_all(journal_, journal_path(target_), as_bytes(text), -1));
  if (::fdatasync(journal_) != 0) return failed("write", journal_path(target_), errno);
  return {};
}

Result<void> PartFile::commit() {
  TRITIUM_TRY(flush());
  if (::fsync(part_) != 0) return failed("write", part_path(target_), errno);
  const fs::path part = part_path(target_);
  if (overwrite_) {
    if (::rename(part.c_str(), target_.c_str()) != 0) return failed("rename", part, errno);
  } else {
    if (::link(part.c_str(), target_.c_str()) != 0) {  // unlike a rename, it never replaces anything
      const int code = errno;
      if (code == EEXIST)
        return Error{ErrorCode::usage, fmt::format("'{}' has appeared meanwhile", target_.string()), "target",
                     "give another name, or --overwrite"};
      if (::rename(part.c_str(), target_.c_str()) != 0) return failed("rename", part, code);  // no links on this file system
    } else {
      ::unlink(part.c_str());
    }
  }
  ::close(std::exchange(journal_, -1));
  ::unlink(journal_path(target_).c_str());
  ::close(std::exchange(part_, -1));
  return {};
}

}  // namespace tritium
