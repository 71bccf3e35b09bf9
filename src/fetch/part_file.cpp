#include "fetch/part_file.h"

#include "base/try.h"
#include "fetch/io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
constexpr int kCheckingThreads = 4;

fs::path with_suffix(const fs::path& target, const char* suffix) { return target.parent_path() / (target.filename().string() + suffix); }

// SHA-256 of a range of an open file; empty when it cannot be read or `keep_going` said no.
std::string hash_range(int fd, const fs::path& path, ByteRange range, const std::function<bool()>& keep_going) {
  Sha256 hash;
  std::vector<std::uint8_t> buffer(std::min<std::uint64_t>(kReadBytes, range.size()));
  for (std::uint64_t at = range.first; at < range.end;) {
    const std::span piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), range.end - at));
    if (!keep_going() || !read_at(fd, path, at, piece).ok()) return "";
    hash.update(piece);
    at += piece.size();
  }
  return hash.finish_hex();
}

}  // namespace

fs::path PartFile::part_path(const fs::path& target) { return with_suffix(target, ".tritium-part"); }
fs::path PartFile::journal_path(const fs::path& target) { return with_suffix(target, ".tritium-part.json"); }

PartFile::PartFile(fs::path target, std::uint64_t size, int fd) : target_(std::move(target)), size_(size), fd_(fd) {}

PartFile::~PartFile() {
  stop_hashing();
  ::close(fd_);
}

Result<std::unique_ptr<PartFile>> PartFile::open(const fs::path& target, std::uint64_t size) {
  const fs::path path = part_path(target);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return io_error("open", path, errno);
  std::unique_ptr<PartFile> out(new PartFile(target, size, fd));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return io_error("write", path, EINVAL);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    return Error{ErrorCode::failure, fmt::format("another process is fetching '{}'", target.string()), "", "wait until it is done"};
  out->content_ = read_journal(journal_path(target));
  if (!out->content_) TRITIUM_TRY(out->reset());
  return out;
}

Result<void> PartFile::check_journal(const CancelToken* cancel, const std::function<void(std::uint64_t)>& checked) {
  if (!content_) return {};
  if (content_->head.size != size_) return {};  // of another version: the caller compares and resets
  std::vector<HashedRange> listed = std::move(content_->ranges);
  std::vector<char> right(listed.size(), 0);
  std::atomic<std::size_t> next{0};
  const auto keep_going = [&] { return cancel == nullptr || !cancel->cancelled(); };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kCheckingThreads && static_cast<std::size_t>(t) < listed.size(); ++t)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < listed.size() && keep_going(); i = next++) {
          right[i] = hash_range(fd_, part_path(target_), listed[i].range, keep_going) == listed[i].sha256;
          checked(listed[i].range.size());
        }
      });
  }
  if (cancel != nullptr && cancel->cancelled()) return cancel->check("the check of what is there");
  content_->ranges.clear();
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (right[i] == 0) continue;
    verified_.add(listed[i].range);
    content_->ranges.push_back(std::move(listed[i]));
  }
  TRITIUM_TRY(rewrite_journal());
  start_hashing();
  return {};
}

Result<void> PartFile::rewrite_journal() {
  TRITIUM_TRY_ASSIGN(journal_, Journal::create(journal_path(target_), *content_));
  return {};
}

std::optional<JournalHead> PartFile::head() const {
  const std::lock_guard lock(mutex_);
  return content_ ? std::optional(content_->head) : std::nullopt;
}

Result<void> PartFile::set_head(JournalHead head) {
  {
    const std::lock_guard lock(mutex_);
    if (content_ && content_->head == head) return {};
    if (!content_) content_.emplace();
    content_->head = std::move(head);
    TRITIUM_TRY(rewrite_journal());
  }
  start_hashing();
  return {};
}

Result<void> PartFile::reset() {
  stop_hashing();
  const std::lock_guard lock(mutex_);
  verified_ = {};
  content_.reset();
  journal_ = {};
  whole_ = {};
  hashed_ = 0;
  // The journal first: it must never speak of bytes that are gone.
  if (::unlink(journal_path(target_).c_str()) != 0 && errno != ENOENT) return io_error("remove", journal_path(target_), errno);
  if (::ftruncate(fd_, 0) != 0) return io_error("empty", part_path(target_), errno);
  return {};
}

std::uint64_t PartFile::verified_bytes() const {
  const std::lock_guard lock(mutex_);
  return verified_.total();
}

std::vector<ByteRange> PartFile::gaps() const {
  const std::lock_guard lock(mutex_);
  return verified_.gaps(size_);
}

Result<void> PartFile::write(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  return write_at(fd_, part_path(target_), offset, bytes);
}

Result<void> PartFile::commit(const HashedRange& range) {
  if (::fdatasync(fd_) != 0) return io_error("flush", part_path(target_), errno);
  const std::lock_guard lock(mutex_);
  TRITIUM_TRY(journal_.append(range));
  verified_.add(range.range);
  content_->ranges.push_back(range);
  grown_.notify_all();
  return {};
}

void PartFile::start_hashing() {
  if (!hashing_.joinable()) hashing_ = std::jthread([this](const std::stop_token& stop) { follow_prefix(stop); });
}

void PartFile::stop_hashing() {
  if (!hashing_.joinable()) return;
  hashing_.request_stop();
  hashing_.join();
}

void PartFile::follow_prefix(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::uint64_t end = 0;
    {
      std::unique_lock lock(mutex_);
      if (!grown_.wait(lock, stop, [&] { return verified_.prefix() > hashed_; })) return;
      end = verified_.prefix();
    }
    if (!hash_until(
             end, [&] { return !stop.stop_requested(); }, [](std::uint64_t) {})
             .ok())
      return;  // whole_sha256() meets it again
  }
}

Result<void> PartFile::hash_until(std::uint64_t end, const std::function<bool()>& keep_going,
                                  const std::function<void(std::uint64_t)>& hashed) {
  std::vector<std::uint8_t> buffer(kReadBytes);
  while (hashed_ < end && keep_going()) {
    const std::span piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), end - hashed_));
    TRITIUM_TRY(read_at(fd_, part_path(target_), hashed_, piece));
    whole_.update(piece);
    hashed_ += piece.size();
    hashed(piece.size());
  }
  return {};
}

Result<std::string> PartFile::whole_sha256(const CancelToken* cancel, const std::function<void(std::uint64_t)>& hashed) {
  stop_hashing();
  hashed(hashed_);
  TRITIUM_TRY(hash_until(
      size_, [&] { return cancel == nullptr || !cancel->cancelled(); }, hashed));
  if (cancel != nullptr) TRITIUM_TRY(cancel->check("hashing"));
  hashed_ = 0;
  return whole_.finish_hex();
}

Result<void> PartFile::publish() {
  if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0 || ::fsync(fd_) != 0) return io_error("flush", part_path(target_), errno);
  if (::rename(part_path(target_).c_str(), target_.c_str()) != 0) return io_error("rename to", target_, errno);
  sync_folder(target_.parent_path());
  ::unlink(journal_path(target_).c_str());  // a leftover one is harmless: it has no bytes beside it
  return {};
}

}  // namespace tritium::fetch
