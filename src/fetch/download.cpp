#include "fetch/download.h"

#include "base/system.h"
#include "base/try.h"
#include "fetch/io.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <algorithm>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxRestarts = 3;  // of one address whose file changes while it is fetched

class Download {
 public:
  Download(const DownloadJob& job, const TransferSettings& settings, RateLimiter& limiter, Reporter& reporter, const CancelToken* cancel)
      : job_(job), settings_(settings), limiter_(limiter), reporter_(reporter), cancel_(cancel) {}

  Result<Downloaded> run() {
    bool all_absent = true;
    for (std::size_t i = 0; i < job_.urls.size(); ++i) {
      TransferResult result = from(job_.urls[i]);
      if (result.end == TransferEnd::complete) return finished_;
      if (result.end == TransferEnd::fatal) return result.error;
      all_absent = all_absent && result.absent;
      if (i + 1 < job_.urls.size()) reporter_.notice(fmt::format("{}; trying the next address", result.error.message));
      failures_.push_back(std::move(result.error));
    }
    if (all_absent && job_.file.optional) {
      reporter_.notice(fmt::format("{} is optional and not there; left out", job_.file.path));
      return Downloaded{true, 0, ""};
    }
    Error out = failures_.back();
    for (std::size_t i = 0; i + 1 < failures_.size(); ++i) out.message += "; before that: " + failures_[i].message;
    return out;
  }

 private:
  // complete: finished_ is set.
  TransferResult from(const std::string& url) {
    const TransferTarget target{job_.file.path, url, job_.file.bytes.has_value(), !job_.file.sha256.empty()};
    bool known = job_.file.bytes || job_.asked;
    std::uint64_t bytes = job_.file.bytes.value_or(job_.asked.value_or(0));
    for (int restarts = 0;; ++restarts) {
      if (!known) {
        SizeAnswer answer = ask_size(target, settings_, reporter_, cancel_);
        if (!answer.size) return std::move(answer.failure);
        bytes = *answer.size;
        known = true;
      }
      if (auto opened = open(bytes); !opened.ok()) return {TransferEnd::fatal, opened.error(), false};
      const bool mixed = part_->verified_bytes() > 0;
      TransferResult result;
      if (bytes > 0) {
        reporter_.begin_stage("fetch");
        result = transfer(*part_, target, settings_, limiter_, reporter_, cancel_);
      }
      if (result.end == TransferEnd::complete) result = finish(target, mixed);
      if (result.end != TransferEnd::changed) return result;
      if (auto reset = start_over(result.error.message); !reset.ok()) return {TransferEnd::fatal, reset.error(), false};
      if (restarts == kMaxRestarts) return {TransferEnd::failed, result.error, false};
      known = job_.file.bytes.has_value();
    }
  }

  Result<void> open(std::uint64_t size) {
    if (part_ && part_->size() == size) return {};
    part_.reset();
    const std::uint64_t there = part_bytes(job_.target);
    TRITIUM_TRY(check_space(job_.target.parent_path(), size - std::min(size, there)));
    TRITIUM_TRY_ASSIGN(part_, PartFile::open(job_.target, size));
    reporter_.begin_stage("check");
    reporter_.set_done(0);
    if (const auto head = part_->head(); head && head->size != size)
      return start_over(fmt::format("{}: the unfinished file was to have {} bytes, now {}", job_.file.path, head->size, size));
    TRITIUM_TRY(part_->check_journal(cancel_, [&](std::uint64_t bytes) { reporter_.add_done(bytes); }));
    reporter_.set_done(part_->verified_bytes());
    return {};
  }

  Result<void> start_over(const std::string& reason) {
    reporter_.notice(fmt::format("{}; starting over", reason));
    reporter_.set_done(0);
    return part_->reset();
  }

  // A wrong hash: once more from the beginning if the bytes are from more than one attempt, otherwise this address has another file.
  TransferResult finish(const TransferTarget& target, bool mixed) {
    reporter_.begin_stage("hash");
    auto hash = part_->whole_sha256(cancel_, [](std::uint64_t) {});
    if (!hash.ok()) return {TransferEnd::fatal, hash.error(), false};
    if (!job_.file.sha256.empty() && *hash != job_.file.sha256) {
      Error error{
          ErrorCode::model,
          fmt::format("'{}' from {} has the SHA-256 {}, the manifest says {}", job_.file.path, shown(target.url), *hash, job_.file.sha256),
          "", "another version of it, or damaged on the way"};
      if (mixed && !tried_again_) {
        tried_again_ = true;
        return {TransferEnd::changed, std::move(error), false};
      }
      if (auto reset = start_over(error.message); !reset.ok()) return {TransferEnd::fatal, reset.error(), false};
      return {TransferEnd::failed, std::move(error), false};
    }
    if (auto published = part_->publish(); !published.ok()) return {TransferEnd::fatal, published.error(), false};
    finished_ = {false, part_->size(), std::move(*hash)};
    return {};
  }

  const DownloadJob& job_;
  const TransferSettings& settings_;
  RateLimiter& limiter_;
  Reporter& reporter_;
  const CancelToken* cancel_;
  std::unique_ptr<PartFile> part_;
  std::vector<Error> failures_;
  bool tried_again_ = false;
  Downloaded finished_;
};

}  // namespace

Result<Downloaded> download(const DownloadJob& job, const TransferSettings& settings, RateLimiter& limiter, Reporter& reporter,
                            const CancelToken* cancel) {
  return Download(job, settings, limiter, reporter, cancel).run();
}

Result<void> check_space(const fs::path& folder, std::uint64_t bytes) {
  struct statvfs info {};
  const std::string name = folder.empty() ? "." : folder.string();
  if (::statvfs(name.c_str(), &info) != 0) return io_error("look at", name, errno);
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (bytes <= free) return {};
  return Error{ErrorCode::does_not_fit,
               fmt::format("{} more are needed in '{}', {} are free", format_bytes(bytes), name, format_bytes(free)), "",
               "free some space, or choose another folder with -o DIR"};
}

std::uint64_t part_bytes(const fs::path& target) {
  struct stat info {};
  return ::stat(PartFile::part_path(target).c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

}  // namespace tritium::fetch
