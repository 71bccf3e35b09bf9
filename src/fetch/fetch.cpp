#include "fetch/fetch.h"

#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "fetch/download.h"
#include "fetch/folder_lock.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>
#include <algorithm>
#include <map>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

bool is_wanted(const std::string& glob, const std::string& path) {
  if (glob.empty() || ::fnmatch(glob.c_str(), path.c_str(), 0) == 0) return true;
  return ::fnmatch(glob.c_str(), fs::path(path).filename().c_str(), 0) == 0;
}

Result<std::vector<std::string>> addresses(const Manifest& manifest, const ManifestFile& file, const std::vector<std::string>& mirrors) {
  std::vector<std::string> out;
  for (const auto* patterns : {&mirrors, &file.urls, &manifest.base_urls})
    for (const std::string& pattern : *patterns) {
      TRITIUM_TRY_ASSIGN(std::string url, expand_pattern(pattern, file));
      if (!origin_of(url)) return Error{ErrorCode::usage, fmt::format("'{}' is not an address", shown(url)), "url", ""};
      if (std::find(out.begin(), out.end(), url) == out.end()) out.push_back(std::move(url));
    }
  if (out.empty())
    return Error{ErrorCode::usage, fmt::format("'{}' has no address", file.path), "manifest",
                 "give \"url\" or \"base_urls\" in the manifest, or --mirror PATTERN"};
  return out;
}

std::optional<std::uint64_t> size_of(const fs::path& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return std::nullopt;
  const auto size = fs::file_size(path, code);
  return code ? std::nullopt : std::optional<std::uint64_t>(size);
}

// A token goes to the hosts that the manifest itself names, not to mirrors.
void complete_token(Token& token, const Manifest& manifest) {
  if (token.value.empty() || !token.hosts.empty()) return;
  const auto add = [&](const std::string& pattern, const ManifestFile& file) {
    const auto url = expand_pattern(pattern, file);
    if (const auto origin = url.ok() ? origin_of(*url) : std::nullopt) token.hosts.push_back(origin->host + ":" + origin->port);
  };
  for (const ManifestFile& file : manifest.files) {
    for (const std::string& url : file.urls) add(url, file);
    for (const std::string& pattern : manifest.base_urls) add(pattern, file);
  }
  std::sort(token.hosts.begin(), token.hosts.end());
  token.hosts.erase(std::unique(token.hosts.begin(), token.hosts.end()), token.hosts.end());
}

class Fetch {
 public:
  Fetch(const Manifest& manifest, FetchOptions options, const FetchHooks& hooks, const CancelToken* cancel, std::vector<PlannedFile> plan)
      : options_(std::move(options)),
        hooks_(hooks),
        cancel_(cancel),
        name_(manifest.name),
        plan_(std::move(plan)),
        limiter_(options_.rate_limit),
        reporter_(hooks_, plan_.size(), known_bytes()) {
    complete_token(options_.transfer.http.token, manifest);
  }

  Result<FetchReport> run() {
    const double begin = monotonic_seconds();
    record_ = read_folder_manifest(options_.folder);
    TRITIUM_TRY(ask_sizes());
    TRITIUM_TRY(check_space(options_.folder, missing_bytes()));
    for (const PlannedFile& planned : plan_) TRITIUM_TRY(one(planned));
    if (!failures_.empty()) return failure();
    report_.received = reporter_.received();
    report_.seconds = monotonic_seconds() - begin;
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::uint64_t known_bytes() const {
    std::uint64_t sum = 0;
    for (const PlannedFile& planned : plan_) sum += planned.file.bytes.value_or(0);
    return sum;
  }
  [[nodiscard]] fs::path target(const PlannedFile& planned) const { return options_.folder / planned.file.path; }

  // For the sum and the check of free space: sizes the manifest does not have, of files that are not known to be there.
  Result<void> ask_sizes() {
    for (const PlannedFile& planned : plan_) {
      if (planned.file.bytes) continue;
      if (const ManifestFile* known = recorded(planned); known != nullptr && known->bytes) {
        enter_size(planned, *known->bytes);
        continue;
      }
      for (const std::string& url : planned.urls) {
        TransferSettings once = options_.transfer;
        once.retries = std::min(once.retries, 1);  // the download itself tries longer
        const SizeAnswer answer = ask_size({planned.file.path, url, false, false}, once, reporter_, cancel_);
        if (answer.failure.end == TransferEnd::fatal) return answer.failure.error;
        if (!answer.size) continue;
        enter_size(planned, *answer.size);
        break;
      }
    }
    return {};
  }
  void enter_size(const PlannedFile& planned, std::uint64_t size) {
    asked_[planned.file.path] = size;
    reporter_.add_total(size);
  }
  [[nodiscard]] std::optional<std::uint64_t> expected_size(const PlannedFile& planned) const {
    if (planned.file.bytes) return planned.file.bytes;
    const auto found = asked_.find(planned.file.path);
    return found == asked_.end() ? std::nullopt : std::optional(found->second);
  }

  [[nodiscard]] std::uint64_t missing_bytes() const {
    std::uint64_t sum = 0;
    for (const PlannedFile& planned : plan_) {
      const std::uint64_t size = expected_size(planned).value_or(0);
      if (size_of(target(planned)) != size) sum += size - std::min(size, part_bytes(target(planned)));
    }
    return sum;
  }

  // What the folder's manifest says about a file that has not been touched since.
  [[nodiscard]] const ManifestFile* recorded(const PlannedFile& planned) const {
    const ManifestFile* known = record_.find(planned.file.path);
    if (known == nullptr || known->sha256.empty() || known->bytes != size_of(target(planned))) return nullptr;
    return known->mtime_ns && known->mtime_ns == modified_ns(target(planned)) ? known : nullptr;
  }

  Result<void> one(const PlannedFile& planned) {
    reporter_.begin_file(planned.file.path);
    TRITIUM_TRY_ASSIGN(const std::string there, present_hash(planned));
    if (!there.empty()) return present(planned, there);
    std::error_code code;
    fs::create_directories(target(planned).parent_path(), code);
    if (code)
      return Error{ErrorCode::failure, fmt::format("cannot create '{}': {}", target(planned).parent_path().string(), code.message()),
                   "output", ""};
    const auto asked = asked_.find(planned.file.path);
    const DownloadJob job{target(planned), planned.file, planned.urls, asked == asked_.end() ? std::nullopt : std::optional(asked->second)};
    auto done = download(job, options_.transfer, limiter_, reporter_, cancel_);
    if (!done.ok()) {
      if (cancel_ != nullptr && cancel_->cancelled()) return done.error();
      if (done.error().code == ErrorCode::does_not_fit) return done.error();
      failures_.push_back(done.error());
      if (plan_.size() > 1) reporter_.notice(done.error().text());
      reporter_.end_file(0);
      return {};
    }
    reporter_.end_file(done->bytes);
    report_.files.push_back({planned.file.path, done->absent ? FileState::absent : FileState::fetched, done->bytes, done->sha256});
    return done->absent ? Result<void>{} : record(planned, done->bytes, done->sha256);
  }

  // The SHA-256 of a file that is there and right; empty: it has to be fetched.
  Result<std::string> present_hash(const PlannedFile& planned) {
    const auto size = size_of(target(planned));
    if (!size) return std::string();
    const std::string& wanted = planned.file.sha256;
    std::string reason;
    if (const auto expected = expected_size(planned); expected && *expected != *size) {
      reason = fmt::format("it has {} bytes, not {}", *size, *expected);
    } else if (!expected) {
      reason = "its size could not be learned from any server";
    } else if (const ManifestFile* known = recorded(planned); known != nullptr && (wanted.empty() || wanted == known->sha256)) {
      return known->sha256;
    } else {
      TRITIUM_TRY_ASSIGN(std::string hash, sha256_file(target(planned), cancel_));
      if (wanted.empty() || hash == wanted) return hash;
      reason = fmt::format("its SHA-256 is {}, not {}", hash, wanted);
    }
    reporter_.notice(fmt::format("{} is there, but {}; it is replaced when the new one is complete", planned.file.path, reason));
    return std::string();
  }

  Result<void> present(const PlannedFile& planned, const std::string& sha256) {
    const std::uint64_t size = size_of(target(planned)).value_or(0);
    for (const fs::path& left : {PartFile::part_path(target(planned)), PartFile::journal_path(target(planned))}) ::unlink(left.c_str());
    reporter_.end_file(size);
    report_.files.push_back({planned.file.path, FileState::present, size, sha256});
    return recorded(planned) != nullptr && recorded(planned)->sha256 == sha256 ? Result<void>{} : record(planned, size, sha256);
  }

  Result<void> record(const PlannedFile& planned, std::uint64_t bytes, const std::string& sha256) {
    ManifestFile entry = planned.file;
    entry.urls.clear();
    entry.bytes = bytes;
    entry.sha256 = sha256;
    entry.mtime_ns = modified_ns(target(planned));
    return update_folder_manifest(options_.folder, name_, {entry});
  }

  [[nodiscard]] Error failure() const {
    if (failures_.size() == 1) return failures_.front();
    Error out = failures_.front();
    out.message = fmt::format("{} of {} files could not be fetched: ", failures_.size(), plan_.size());
    for (std::size_t i = 0; i < failures_.size(); ++i) out.message += (i == 0 ? "" : "; ") + failures_[i].message;
    return out;
  }

  FetchOptions options_;
  const FetchHooks& hooks_;
  const CancelToken* cancel_;
  std::string name_;
  std::vector<PlannedFile> plan_;
  RateLimiter limiter_;
  Reporter reporter_;
  Manifest record_;
  std::map<std::string, std::uint64_t> asked_;
  std::vector<Error> failures_;
  FetchReport report_;
};

}  // namespace

Result<std::vector<PlannedFile>> plan_fetch(const Manifest& manifest, const FetchOptions& options) {
  std::vector<PlannedFile> out;
  for (const ManifestFile& file : manifest.files) {
    if (!is_wanted(options.only, file.path)) continue;
    PlannedFile planned{file, false, 0, {}};
    TRITIUM_TRY_ASSIGN(planned.urls, addresses(manifest, file, options.mirrors));
    const fs::path target = options.folder / file.path;
    const auto size = size_of(target);
    planned.present = size && (!file.bytes || *size == *file.bytes);
    planned.kept = planned.present ? 0 : part_bytes(target);
    out.push_back(std::move(planned));
  }
  if (out.empty())
    return Error{ErrorCode::usage, fmt::format("no file matches '{}'", options.only), "only", "see 'tritium fetch NAME --dry-run'"};
  return out;
}

Result<FetchReport> fetch(const Manifest& manifest, const FetchOptions& options, const FetchHooks& hooks, const CancelToken* cancel) {
  TRITIUM_TRY_ASSIGN(std::vector<PlannedFile> plan, plan_fetch(manifest, options));
  std::error_code code;
  fs::create_directories(options.folder, code);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot create '{}': {}", options.folder.string(), code.message()), "output", ""};
  const auto notice = [&](const std::string& text) {
    if (hooks.notice) hooks.notice(text);
  };
  TRITIUM_TRY_ASSIGN(const FolderLock lock, FolderLock::take(options.folder, options.wait, notice, cancel));
  return Fetch(manifest, options, hooks, cancel, std::move(plan)).run();
}

}  // namespace tritium::fetch
