#include "job/job_files.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "job/process_facts.h"
#include "job/stored_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr const char* kVideo = "video.mp4";
constexpr const char* kCopy = "job.json";
constexpr const char* kThumbnail = "thumbnail.jpg";
constexpr std::uint64_t kLeastFree = 1 << 20;

Error busy(const std::string& what, const fs::path& path, const std::error_code& code) {
  return Error{ErrorCode::busy, fmt::format("cannot {} '{}': {}", what, path.string(), code.message()), "",
               code == std::errc::no_space_on_device ? "free some space on its disk" : ""};
}

std::error_code flush(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {errno, std::generic_category()};
  std::error_code out;
  // Some file systems cannot flush folders.
  if (::fsync(fd) != 0 && errno != EINVAL) out = {errno, std::generic_category()};
  ::close(fd);
  return out;
}

bool is_inside(const fs::path& file, const fs::path& folder) {
  std::error_code ignored;
  const auto relative = fs::weakly_canonical(file, ignored).lexically_relative(fs::weakly_canonical(folder, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

// A file of this service is never written in place, so a link keeps its content; that of somebody else is copied.
std::error_code take(const fs::path& from, const fs::path& to, const fs::path& data) {
  std::error_code code;
  if (is_inside(from, data)) {
    fs::create_hard_link(fs::canonical(from, code), to, code);
    if (!code) return {};
    code.clear();
  }
  fs::copy_file(from, to, code);
  return code ? code : flush(to);
}

std::optional<int> number_of(const std::string& name) {
  int out = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), out);
  return code == std::errc() && end == name.data() + name.size() ? std::optional(out) : std::nullopt;
}

Result<JobOutput> describe(const fs::path& folder) {
  JobOutput out{folder / kVideo, folder / (std::string(kVideo) + ".json"), folder / kThumbnail, 0, "", 0};
  std::error_code code;
  if (!fs::exists(out.thumbnail, code)) out.thumbnail.clear();
  out.bytes = fs::file_size(out.video, code);
  if (code) return busy("find", out.video, code);
  TRITIUM_TRY_ASSIGN(out.sha256, sha256_file(out.video));
  return out;
}

}  // namespace

Result<std::unique_ptr<JobFiles>> JobFiles::open(const fs::path& data) {
  std::error_code code;
  for (const fs::path& folder : {data, data / "jobs", data / "spool"}) {
    // What people ask for concerns nobody else. A folder that was there is its owner's to open or close.
    if (fs::create_directories(folder, code)) fs::permissions(folder, fs::perms::owner_all, code);
    if (code)
      return Error{ErrorCode::failure, fmt::format("the data folder '{}' cannot be made: {}", folder.string(), code.message()), "data",
                   "choose another one with --data"};
  }
  const fs::path name = data / "lock";
  const int lock = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0)
    return Error{ErrorCode::failure, fmt::format("the data folder '{}' cannot be written: {}", data.string(), system_message(errno)),
                 "data", "make it writable, or choose another one with --data"};
  std::unique_ptr<JobFiles> out(new JobFiles(fs::absolute(data), lock));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const auto holder = read_file(name);
    return Error{ErrorCode::conflict,
                 fmt::format("the data folder '{}' is in use by another server{}", data.string(),
                             holder.ok() && !holder->empty() ? ", process " + *holder : ""),
                 "data", "stop that one, or choose another folder"};
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(lock, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(lock, pid.data(), pid.size(), 0);
  for (const auto& entry : fs::directory_iterator(data / "spool", code)) fs::remove_all(entry.path(), code);
  return out;
}

JobFiles::~JobFiles() { ::close(lock_); }

void JobFiles::note_worker(const std::string& name, int pid) const {
  std::error_code ignored;
  fs::create_directories(data_ / "workers", ignored);
  std::ofstream(data_ / "workers" / name) << pid << ' ' << process_start(pid);
}

void JobFiles::wait_for_old_workers() const {
  constexpr double kSecondsUntilKill = 3, kSecondsAtMost = 10;
  const double begun = monotonic_seconds();
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(data_ / "workers", code)) {
    int pid = 0;
    std::uint64_t start = 0;
    if (!(std::ifstream(entry.path()) >> pid >> start) || pid <= 1 || start == 0) continue;
    for (double waited = 0; process_start(pid) == start && waited < kSecondsAtMost; waited = monotonic_seconds() - begun) {
      if (waited > kSecondsUntilKill) ::kill(pid, SIGKILL);
      ::usleep(20'000);
    }
  }
  fs::remove_all(data_ / "workers", code);
}

fs::path JobFiles::checkpoint(const std::string& id, int output) const { return folder(id) / "checkpoint" / std::to_string(output); }

Result<void> JobFiles::take_inputs(const std::string& id, Request& request) const {
  std::error_code code;
  const fs::path inputs = folder(id) / "inputs";
  fs::create_directories(inputs, code);
  if (code) return busy("make", inputs, code);
  Result<void> taken;
  int count = 0;
  for_each_input(request, [&](const std::string& field, fs::path& file) {
    if (!taken.ok()) return;
    const fs::path to = inputs / (std::to_string(count++) + file.extension().string());
    const std::error_code failed = take(file, to, data_);
    if (failed == std::errc::no_such_file_or_directory || failed == std::errc::permission_denied)
      taken = Error{ErrorCode::usage, fmt::format("'{}' cannot be read: {}", file.string(), failed.message()), field, ""};
    else if (failed)
      taken = busy("copy", file, failed);
    file = to;
  });
  for (const fs::path& each : {inputs, folder(id), data_ / "jobs"})
    if (const std::error_code failed = flush(each); failed && taken.ok()) taken = busy("flush", each, failed);
  if (!taken.ok()) remove(id);
  return taken;
}

Result<void> JobFiles::note(const Job& job) const { return write_file_atomically(folder(job.id) / kCopy, encode_job(job)); }

std::vector<Job> JobFiles::noted() const {
  std::vector<Job> out;
  for (const std::string& id : folders()) {
    const auto text = read_file(folder(id) / kCopy);
    if (!text.ok()) continue;
    auto job = decode_job(*text);
    if (job.ok() && job->id == id) out.push_back(std::move(*job));
  }
  std::sort(out.begin(), out.end(), [](const Job& a, const Job& b) { return a.sequence < b.sequence; });
  return out;
}

Result<fs::path> JobFiles::begin(const std::string& id, int attempt, int output) const {
  const fs::path out = folder(id) / std::to_string(attempt) / std::to_string(output);
  std::error_code code;
  fs::remove_all(out, code);
  fs::create_directories(out, code);
  if (code) return busy("make", out, code);
  return out;
}

Result<JobOutput> JobFiles::publish(const std::string& id, int attempt, int output) const {
  const fs::path from = folder(id) / std::to_string(attempt) / std::to_string(output), results = folder(id) / "results",
                 to = results / std::to_string(output);
  std::error_code code;
  fs::create_directories(results, code);
  if (code) return busy("make", results, code);
  for (const auto& entry : fs::directory_iterator(from, code))
    if (const std::error_code failed = flush(entry.path())) return busy("flush", entry.path(), failed);
  if (!code) code = flush(from);
  if (code) return busy("flush", from, code);
  fs::remove_all(to, code);
  fs::rename(from, to, code);
  if (code) return busy("rename to", to, code);
  for (const fs::path& each : {results, folder(id)})
    if (const std::error_code failed = flush(each)) return busy("flush", each, failed);
  return describe(to);
}

void JobFiles::keep_rejected(const std::string& id, int attempt, int output) const {
  std::error_code ignored;
  fs::remove_all(folder(id) / "rejected", ignored);
  fs::rename(folder(id) / std::to_string(attempt) / std::to_string(output), folder(id) / "rejected", ignored);
}

std::optional<JobOutput> JobFiles::published(const std::string& id, int output) const {
  const fs::path at = folder(id) / "results" / std::to_string(output);
  std::error_code ignored;
  if (!fs::exists(at / kVideo, ignored)) return {};
  auto out = describe(at);
  return out.ok() ? std::optional(std::move(*out)) : std::nullopt;
}

void JobFiles::clean(const std::string& id, int attempt, bool checkpoints) const {
  std::error_code code;
  std::vector<fs::path> gone;
  for (const auto& entry : fs::directory_iterator(folder(id), code))
    if (const auto number = number_of(entry.path().filename().string()); number && *number <= attempt) gone.push_back(entry.path());
  if (checkpoints) gone.push_back(folder(id) / "checkpoint");
  for (const fs::path& path : gone) fs::remove_all(path, code);
  remove_abandoned_files(folder(id) / kCopy);
}

void JobFiles::remove(const std::string& id) const {
  std::error_code ignored;
  fs::remove_all(folder(id), ignored);
}

std::vector<std::string> JobFiles::folders() const {
  std::vector<std::string> out;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(data_ / "jobs", code)) out.push_back(entry.path().filename().string());
  return out;
}

std::uint64_t JobFiles::bytes(const std::string& id) const {
  std::uint64_t out = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder(id), code), end; !code && it != end; it.increment(code))
    if (it->is_regular_file(code)) out += it->file_size(code);
  return out;
}

Result<void> JobFiles::check_writable(std::uint64_t bytes) const {
  std::error_code code;
  const fs::path probe = data_ / "jobs" / ".probe";
  const auto written = write_file_atomically(probe, std::string(4096, ' '));
  if (!written.ok()) return Error{ErrorCode::busy, "the data folder cannot be written: " + written.error().message, "", ""};
  fs::remove(probe, code);
  const fs::space_info space = fs::space(data_, code);
  const std::uint64_t need = std::max(bytes, kLeastFree);
  if (!code && space.available < need)
    return Error{ErrorCode::busy,
                 fmt::format("the disk of the data folder '{}' is full: {} free, {} needed", data_.string(), format_bytes(space.available),
                             format_bytes(need)),
                 "", "free some space; the service goes on by itself"};
  return {};
}

}  // namespace tritium
