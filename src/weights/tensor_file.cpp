#include "weights/tensor_file.h"

#include "base/files.h"
#include "base/try.h"
#include "weights/gguf.h"
#include "weights/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPickleHint =
    "a pickle can run any program when it is read; use a .safetensors or .gguf file of the same weights";

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "", std::move(hint)}; }

Result<void> read_at(int fd, const fs::path& path, std::uint64_t offset, std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad("cannot read '" + path.string() + "': " + system_message(errno));
    if (n == 0) return bad("'" + path.string() + "' ended early: it became shorter while it was in use");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

std::array<std::int64_t, 3> stamp_of(const struct stat& info) { return {info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec}; }

// A hint about unfinished downloads lying beside the file.
std::string download_hint(const fs::path& path) {
  for (const char* suffix : {".aria2", ".part", ".incomplete"}) {
    std::error_code ignored;
    if (fs::exists(path.string() + suffix, ignored))
      return fmt::format("'{}{}' says the download has not finished", path.filename().string(), suffix);
  }
  return "download the file again";
}

bool starts_with(std::span<const std::uint8_t> bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin(), [](char c, std::uint8_t b) { return static_cast<std::uint8_t>(c) == b; });
}

// Files that are no weight container but often stand in the place of one. `what` completes "'FILE' is ...".
struct Stranger {
  std::string_view start, what, hint;
};
constexpr std::array<Stranger, 8> kStrangers = {{
    {"version https://git-lfs", "a Git LFS pointer, not the file itself", "run 'git lfs pull' in that repository"},
    {"PK\x03\x04", "a zip archive, as PyTorch writes pickles (.pt, .pth, .bin, .ckpt), which are not supported", kPickleHint},
    {"\x80\x02", "a Python pickle (.pt, .pth, .bin, .ckpt), which is not supported", kPickleHint},
    {"\x80\x03", "a Python pickle (.pt, .pth, .bin, .ckpt), which is not supported", kPickleHint},
    {"\x80\x04", "a Python pickle (.pt, .pth, .bin, .ckpt), which is not supported", kPickleHint},
    {"\x80\x05", "a Python pickle (.pt, .pth, .bin, .ckpt), which is not supported", kPickleHint},
    {"<!DOCTYPE", "a web page, not weights", "the download went wrong: the address may need a login"},
    {"<html", "a web page, not weights", "the download went wrong: the address may need a login"},
}};

}  // namespace

Result<void> TensorFile::check_unchanged() const {
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && stamp_of(info) == stamp_) return {};
  return bad("'" + path_.string() + "' was changed while it was in use", "replace weight files by renaming, not by writing over them");
}

struct TensorFile::Shared {
  std::mutex mutex;
  std::shared_ptr<const FileMapping> mapping;
  std::optional<int> direct;  // a descriptor that passes by the page cache; -1 where there is none

  ~Shared() {
    if (direct && *direct >= 0) ::close(*direct);
  }
  int direct_descriptor(int fd) {
    const std::lock_guard lock(mutex);
    if (!direct) direct = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    return *direct;
  }
};

TensorFile::TensorFile(TensorFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      file_bytes_(other.file_bytes_),
      header_(std::move(other.header_)),
      stamp_(other.stamp_),
      shared_(std::move(other.shared_)) {}

TensorFile::~TensorFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<TensorFile> TensorFile::open(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad("cannot open '" + path.string() + "': " + system_message(errno));
  TensorFile file(path, fd);  // owns the descriptor from here on
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return bad("'" + path.string() + "' is not a regular file");
  file.file_bytes_ = static_cast<std::uint64_t>(info.st_size);
  file.stamp_ = stamp_of(info);
  TRITIUM_TRY_ASSIGN(file.header_, file.read_header());
  file.shared_ = std::make_shared<Shared>();
  return file;
}

Result<FileHeader> TensorFile::read_header() const {
  std::array<std::uint8_t, 24> bytes{};
  const auto start = std::span(bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes_, bytes.size())));
  TRITIUM_TRY(read_at(fd_, path_, 0, start));
  if (const auto refusal = refuse_stranger(start)) return *refusal;
  const bool gguf = starts_with(start, "GGUF") || (path_.extension() == ".gguf" && (start.size() < 9 || start[8] != '{'));
  auto header =
      gguf ? parse_gguf([this](std::uint64_t offset, std::span<std::uint8_t> out) { return read_at(fd_, path_, offset, out); }, file_bytes_)
           : read_safetensors_header();
  if (header.ok()) return header;
  const Error& e = header.error();
  return Error{ErrorCode::model,
               fmt::format("'{}' is not a valid {} file: {}", path_.string(),
                           container_name(gguf ? Container::gguf : Container::safetensors), e.message),
               e.field, e.hint.empty() ? download_hint(path_) : e.hint};
}

std::optional<Error> TensorFile::refuse_stranger(std::span<const std::uint8_t> start) const {
  if (start.size() > 8 && start[8] == '{') return std::nullopt;  // a safetensors header, whatever its length looks like
  for (const Stranger& stranger : kStrangers)
    if (starts_with(start, stranger.start))
      return bad(fmt::format("'{}' is {}", path_.string(), stranger.what), std::string(stranger.hint));
  return std::nullopt;
}

Result<FileHeader> TensorFile::read_safetensors_header() const {
  std::vector<std::uint8_t> prefix(std::min<std::uint64_t>(file_bytes_, 8));
  TRITIUM_TRY(read_at(fd_, path_, 0, prefix));
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) length = (length << 8) | prefix[i];
  if (prefix.size() == 8 && length <= kSafetensorsHeaderLimit && length <= file_bytes_ - 8) {
    prefix.resize(8 + static_cast<std::size_t>(length));
    TRITIUM_TRY(read_at(fd_, path_, 0, prefix));
  }
  return parse_safetensors(prefix, file_bytes_);
}

Result<std::shared_ptr<const FileMapping>> TensorFile::mapping() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->mapping == nullptr) {
    TRITIUM_TRY_ASSIGN(FileMapping mapping, FileMapping::create(fd_, path_, file_bytes_));
    shared_->mapping = std::make_shared<const FileMapping>(std::move(mapping));
  }
  return shared_->mapping;
}

void TensorFile::forget_pages(const TensorInfo& tensor) const {
  (void)::posix_fadvise(fd_, static_cast<off_t>(tensor.offset), static_cast<off_t>(tensor.bytes), POSIX_FADV_DONTNEED);
}

Result<void> TensorFile::read(const TensorInfo& tensor, std::span<std::uint8_t> out) const { return read_range(tensor, 0, out); }

Result<void> TensorFile::read_range(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const {
  return read_at(fd_, path_, tensor.offset + first, out);
}

Result<void> TensorFile::read_direct(const TensorInfo& tensor, std::uint64_t first, std::span<std::uint8_t> out) const {
  const std::uint64_t begin = tensor.offset + first, end = begin + out.size();
  const std::uint64_t whole_begin = (begin + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  const std::uint64_t whole_end = end / kDirectAlignment * kDirectAlignment;
  const bool agree = (reinterpret_cast<std::uintptr_t>(out.data()) - begin) % kDirectAlignment == 0;
  const int direct = agree && whole_begin < whole_end ? shared_->direct_descriptor(fd_) : -1;
  if (direct < 0) return read_at(fd_, path_, begin, out);
  // A file system may open a file this way and refuse to read it so; then, and at both ends, the usual way.
  std::uint64_t at = whole_begin;
  while (at < whole_end) {
    const ssize_t n = ::pread(direct, out.data() + (at - begin), whole_end - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || static_cast<std::uint64_t>(n) % kDirectAlignment != 0) break;
    at += static_cast<std::uint64_t>(n);
  }
  TRITIUM_TRY(read_at(fd_, path_, begin, out.first(whole_begin - begin)));
  return read_at(fd_, path_, at, out.subspan(at - begin));
}

}  // namespace tritium
