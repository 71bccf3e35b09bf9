#include "fetch/verify.h"

#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "fetch/finite.h"
#include "fetch/io.h"
#include "weights/gguf_split.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace tritium::fetch {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxEntries = 100'000;
constexpr int kMaxDepth = 8, kManifestLevels = 4, kHashingThreads = 4;
constexpr std::array<std::string_view, 6> kLeftovers = {".tritium-part", ".incomplete", ".aria2", ".part", ".partial", ".crdownload"};

bool is_weights(const fs::path& path) { return path.extension() == ".safetensors" || path.extension() == ".gguf"; }
bool is_index(const fs::path& path) { return path.filename().string().ends_with(".safetensors.index.json"); }
bool is_leftover(const fs::path& path) {
  const std::string name = path.filename().string();
  return std::any_of(kLeftovers.begin(), kLeftovers.end(),
                     [&](std::string_view end) { return name.size() > end.size() && name.ends_with(end); });
}

class Verify {
 public:
  Verify(const VerifyOptions& options, const FetchHooks& hooks, const CancelToken* cancel)
      : options_(options), hooks_(hooks), cancel_(cancel) {}

  Result<VerifyReport> run() {
    TRITIUM_TRY(find());
    for (const fs::path& path : found_) list(path);
    TRITIUM_TRY(check_sizes());
    if (lines_.empty())
      return Error{ErrorCode::usage, fmt::format("nothing in '{}' can be verified", options_.path.string()), "path",
                   "expected are .safetensors or .gguf files, or a tritium-manifest.json"};
    Reporter reporter(hooks_, lines_.size(), options_.full ? work_bytes() : 0);
    for (const fs::path& path : found_)
      if (is_index(path)) TRITIUM_TRY(group(path, reporter));
    for (const fs::path& path : found_)
      if (is_weights(path) && !grouped_.contains(path)) TRITIUM_TRY(group(path, reporter));
    if (options_.full) TRITIUM_TRY(check_hashes(reporter));
    VerifyReport out;
    out.folder = root_;
    out.manifest = manifest_.name;
    for (auto& [path, file] : lines_) out.files.push_back(std::move(file));
    return out;
  }

 private:
  // root_, found_ and the manifest.
  Result<void> find() {
    std::error_code code;
    if (fs::is_directory(options_.path, code)) {
      root_ = options_.path;
      TRITIUM_TRY(scan(root_, kMaxDepth));
      take_manifest(root_ / kFolderManifest);
      return {};
    }
    if (!fs::exists(fs::symlink_status(options_.path, code)))
      return Error{ErrorCode::usage, fmt::format("there is no '{}'", options_.path.string()), "path", ""};
    const fs::path folder = options_.path.has_parent_path() ? options_.path.parent_path() : fs::path(".");
    only_ = folder / options_.path.filename();
    TRITIUM_TRY(scan(folder, 0));  // an index may say more about it
    root_ = folder;
    fs::path above = folder;
    for (int level = 0; level < kManifestLevels && !options_.manifest; ++level, above /= "..") {
      if (!fs::exists(above / kFolderManifest, code)) continue;
      take_manifest(above / kFolderManifest);
      root_ = above;
      break;
    }
    if (options_.manifest) manifest_ = *options_.manifest;
    return {};
  }
  void take_manifest(const fs::path& file) {
    manifest_ = options_.manifest ? *options_.manifest : read_folder_manifest(file.parent_path());
  }

  Result<void> scan(const fs::path& folder, int depth) {
    std::error_code code;
    std::vector<fs::directory_entry> entries;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) entries.push_back(entry);
    if (code) return io_error("read", folder, code.value());
    for (const fs::directory_entry& entry : entries) {
      if (entry.is_directory(code)) {
        if (depth > 0) TRITIUM_TRY(scan(entry.path(), depth - 1));
        continue;
      }
      found_.push_back(entry.path());
      if (found_.size() > kMaxEntries)
        return Error{ErrorCode::usage, fmt::format("more than {} files in '{}'", kMaxEntries, options_.path.string()), "path",
                     "name a smaller folder"};
    }
    std::sort(found_.begin(), found_.end());
    return {};
  }

  // As the manifest writes it.
  [[nodiscard]] std::string name_of(const fs::path& path) const {
    std::error_code code;
    const fs::path name = fs::relative(path.parent_path(), root_, code) / path.filename();
    return code ? path.string() : name.lexically_normal().generic_string();
  }
  [[nodiscard]] bool is_asked(const fs::path& path) const { return !only_ || path == *only_ || (is_index(*only_) && is_weights(path)); }

  VerifiedFile* line(const fs::path& path) {
    if (!is_asked(path)) return nullptr;
    const auto [at, added] = lines_.try_emplace(name_of(path));
    if (added) {
      std::error_code code;
      at->second.path = at->first;
      at->second.bytes = fs::file_size(path, code);
      if (code) at->second.bytes = 0;
    }
    return &at->second;
  }
  void bad(const fs::path& path, const std::string& reason) {
    VerifiedFile* file = line(path);
    if (file != nullptr && file->reason.empty()) file->reason = reason;  // the first reason is the nearest to the cause
  }

  void list(const fs::path& path) {
    std::error_code code;
    if (is_leftover(path)) {
      bad(path, "what is left of an unfinished download; run the same fetch again, or remove it");
    } else if (!fs::exists(path, code)) {
      bad(path, "a link to nothing");
    } else if (is_weights(path) || is_index(path)) {
      line(path);
    }
  }

  Result<void> check_sizes() {
    for (const ManifestFile& file : manifest_.files) {
      const fs::path path = root_ / file.path;
      if (only_ && name_of(*only_) != file.path) continue;
      std::error_code code;
      if (!fs::is_regular_file(path, code)) {
        if (file.optional) continue;
        VerifiedFile& missing = lines_[file.path];
        missing.path = file.path;
        if (missing.reason.empty()) missing.reason = "missing";
        continue;
      }
      const std::uint64_t size = fs::file_size(path, code);
      lines_.try_emplace(file.path, VerifiedFile{file.path, "", size});
      if (file.bytes && *file.bytes != size) bad_name(file.path, fmt::format("has {} bytes, the manifest says {}", size, *file.bytes));
    }
    return {};
  }
  void bad_name(const std::string& name, const std::string& reason) {
    const auto found = lines_.find(name);
    if (found != lines_.end() && found->second.reason.empty()) found->second.reason = reason;
  }

  [[nodiscard]] std::uint64_t work_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, file] : lines_) {
      if (is_weights(name)) sum += file.bytes;
      if (const ManifestFile* known = manifest_.find(name); known != nullptr && !known->sha256.empty()) sum += file.bytes;
    }
    return sum;
  }

  // A file on its own, an index with its shards, or the pieces of a split GGUF.
  Result<void> group(const fs::path& path, Reporter& reporter) {
    if (!is_needed(path)) return {};
    auto checkpoint = Checkpoint::open(path);
    if (!checkpoint.ok()) {
      bad(path, checkpoint.error().text());
      if (is_index(path)) open_shards_alone(path.parent_path());
      return {};
    }
    for (const TensorFile& file : checkpoint->files()) grouped_.insert(file.path());
    const auto tensors = LogicalTensors::open(*checkpoint);
    if (!tensors.ok()) {
      const std::string where = file_holding(*checkpoint, tensors.error().field);
      bad(where.empty() ? path : fs::path(where), tensors.error().text());
      return {};
    }
    if (!options_.full) return {};
    reporter.begin_file(name_of(path));
    reporter.begin_stage("values");
    std::atomic<std::uint64_t> looked{0};
    TRITIUM_TRY_ASSIGN(const auto problems, check_values(
                                                *tensors, [&](const std::string& file) { return is_asked(file); },
                                                [&](std::uint64_t bytes) {
                                                  looked += bytes;
                                                  reporter.add_done(bytes);
                                                  reporter.received(bytes);
                                                },
                                                cancel_));
    reporter.end_file(looked);
    for (const auto& [file, reason] : problems) bad(file, reason);
    return {};
  }

  // Whether a group can say anything about what was asked.
  [[nodiscard]] bool is_needed(const fs::path& path) const {
    std::error_code code;
    if (!fs::exists(path, code)) return false;
    if (!only_ || is_asked(path)) return true;
    return is_index(path) && is_weights(*only_);
  }

  // The index cannot be used: its shards are at least whole or not. Layers may be spread over them.
  void open_shards_alone(const fs::path& folder) {
    for (const fs::path& path : found_) {
      if (path.parent_path() != folder || path.extension() != ".safetensors" || !is_asked(path)) continue;
      std::error_code code;
      if (!fs::exists(path, code)) continue;
      grouped_.insert(path);
      if (auto file = TensorFile::open(path); !file.ok()) bad(path, file.error().text());
    }
  }

  Result<void> check_hashes(Reporter& reporter) {
    std::vector<const ManifestFile*> files;
    for (const ManifestFile& file : manifest_.files)
      if (const auto found = lines_.find(file.path); !file.sha256.empty() && found != lines_.end() && found->second.reason.empty())
        files.push_back(&file);
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    const auto work = [&] {
      for (std::size_t i = next++; i < files.size() && !cancelled(); i = next++) {
        reporter.begin_file(files[i]->path);
        reporter.begin_stage("hash");
        const auto hash = hash_of(root_ / files[i]->path, reporter);
        const std::lock_guard lock(mutex);
        if (!hash.ok()) {
          bad_name(files[i]->path, hash.error().text());
        } else if (*hash != files[i]->sha256) {
          bad_name(files[i]->path, fmt::format("its SHA-256 is {}, the manifest says {}", *hash, files[i]->sha256));
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < std::min(kHashingThreads, usable_cpus()); ++t) threads.emplace_back(work);
    }
    if (cancelled()) return cancel_->check("hashing");
    return {};
  }
  [[nodiscard]] bool cancelled() const { return cancel_ != nullptr && cancel_->cancelled(); }

  Result<std::string> hash_of(const fs::path& path, Reporter& reporter) const {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error("open", path, errno);
    std::error_code code;
    const std::uint64_t size = fs::file_size(path, code);
    Sha256 hash;
    std::vector<std::uint8_t> buffer(1 << 20);
    Result<void> read;
    for (std::uint64_t at = 0; at < size && read.ok() && !cancelled();) {
      const std::span piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), size - at));
      read = read_at(fd, path, at, piece);
      if (read.ok()) hash.update(piece);
      at += piece.size();
      reporter.add_done(piece.size());
      reporter.received(piece.size());
    }
    ::close(fd);
    if (!read.ok()) return read.error();
    return hash.finish_hex();
  }

  const VerifyOptions& options_;
  const FetchHooks& hooks_;
  const CancelToken* cancel_;
  fs::path root_;
  std::optional<fs::path> only_;  // a single file was asked about
  Manifest manifest_;
  std::vector<fs::path> found_;  // sorted
  std::set<fs::path> grouped_;
  std::map<std::string, VerifiedFile> lines_;
};

}  // namespace

std::size_t VerifyReport::bad() const {
  return static_cast<std::size_t>(std::count_if(files.begin(), files.end(), [](const VerifiedFile& f) { return !f.reason.empty(); }));
}

Result<VerifyReport> verify(const VerifyOptions& options, const FetchHooks& hooks, const CancelToken* cancel) {
  return Verify(options, hooks, cancel).run();
}

}  // namespace tritium::fetch
