#include "server/comfy/uploads.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "server/comfy/names.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>

namespace tritium::server::comfy {
namespace fs = std::filesystem;
namespace {

constexpr double kSweepSeconds = 3600;
constexpr int kMaxCopies = 10000;

Result<std::string> checked_type(const std::string& type) {
  if (type.empty()) return std::string("input");
  for (const char* known : {"input", "temp", "output"})
    if (type == known) return type;
  return Error{ErrorCode::usage, fmt::format("'{}' is not one of input, temp, output", type), "type", ""};
}

std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t out = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied, code), end; !code && each != end;
       each.increment(code)) {
    std::error_code ignored;
    if (each->is_regular_file(ignored)) out += each->file_size(ignored);
  }
  return out;
}

bool same_content(const fs::path& a, const fs::path& b) {
  std::error_code code;
  if (fs::file_size(a, code) != fs::file_size(b, code) || code) return false;
  const auto first = sha256_file(a), second = sha256_file(b);
  return first.ok() && second.ok() && *first == *second;
}

std::string lower_ending(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  std::string out = dot == std::string::npos ? std::string() : name.substr(dot);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

Uploads::Uploads(fs::path folder, UploadLimits limits) : folder_(std::move(folder)), limits_(limits) {}

fs::path Uploads::folder_of(const std::string& owner) const { return folder_ / ("owner_" + sha256_hex(owner).substr(0, 16)); }

// Files that nobody used for so long.
void Uploads::sweep(const fs::path& folder) {
  if (limits_.keep_days <= 0 || monotonic_seconds() - swept_ < kSweepSeconds) return;
  swept_ = monotonic_seconds();
  const auto limit = fs::file_time_type::clock::now() - std::chrono::seconds(static_cast<std::int64_t>(limits_.keep_days * 86400));
  std::error_code code;
  std::vector<fs::path> old;
  for (fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied, code), end; !code && each != end;
       each.increment(code)) {
    std::error_code ignored;
    if (each->is_regular_file(ignored) && each->last_write_time(ignored) < limit) old.push_back(each->path());
  }
  for (const fs::path& each : old) fs::remove(each, code);
}

Result<Uploads::Stored> Uploads::store(const std::string& owner, const http::FormField& file, const std::string& subfolder,
                                       const std::string& type, bool overwrite) {
  TRITIUM_TRY_ASSIGN(const std::string where, checked_type(type));
  if (const auto fine = check_file_name(file.file_name); !fine.ok())
    return Error{ErrorCode::usage, fine.error().message, "image", fine.error().hint};
  auto segments = check_subfolder(subfolder);
  if (!segments.ok()) return Error{ErrorCode::usage, segments.error().message, "subfolder", segments.error().hint};
  fs::path folder = folder_of(owner) / where;
  for (const std::string& segment : *segments) folder /= segment;

  const std::lock_guard lock(mutex_);
  sweep(folder_);
  const std::uint64_t there = bytes_in(folder_of(owner));
  if (there + file.bytes > limits_.max_bytes)
    return Error{ErrorCode::busy,
                 fmt::format("uploaded files take {}; with this one of {} they would be more than the {} that are allowed",
                             format_bytes(there), format_bytes(file.bytes), format_bytes(limits_.max_bytes)),
                 "image", "unused files go after some days; overwrite old ones, or ask the server's operator for more room"};
  std::error_code code;
  fs::create_directories(folder, code);
  const fs::path wanted = file.file_name;
  std::string name = file.file_name;
  if (!overwrite) {
    for (int i = 1; fs::exists(folder / name, code); ++i) {
      if (same_content(folder / name, file.file)) return Stored{name, fmt::format("{}", fmt::join(*segments, "/")), where};
      if (i > kMaxCopies)
        return Error{ErrorCode::conflict, fmt::format("there are too many files like '{}'", file.file_name), "image", "set overwrite"};
      name = fmt::format("{} ({}){}", wanted.stem().string(), i, wanted.extension().string());
    }
  }
  TRITIUM_TRY_ASSIGN(AtomicFile target, AtomicFile::create(folder / name));
  fs::copy_file(file.file, target.temporary_path(), fs::copy_options::overwrite_existing, code);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot store '{}': {}", name, code.message()), "image", ""};
  TRITIUM_TRY(target.commit());
  return Stored{name, fmt::format("{}", fmt::join(*segments, "/")), where};
}

Result<fs::path> Uploads::find(const std::string& owner, const std::string& type, const std::string& subfolder,
                               const std::string& name) const {
  TRITIUM_TRY_ASSIGN(const std::string where, checked_type(type));
  TRITIUM_TRY(check_file_name(name));
  TRITIUM_TRY_ASSIGN(const auto segments, check_subfolder(subfolder));
  fs::path path = folder_of(owner) / where;
  for (const std::string& segment : segments) path /= segment;
  path /= name;
  std::error_code code;
  if (!fs::is_regular_file(fs::symlink_status(path, code)))
    return Error{ErrorCode::not_found, fmt::format("there is no uploaded file '{}{}{}'", subfolder, subfolder.empty() ? "" : "/", name), "",
                 "upload it with POST /upload/image"};
  return path;
}

std::vector<std::string> Uploads::names(const std::string& owner, const std::vector<std::string>& endings) const {
  constexpr std::size_t kMost = 1000;
  std::vector<std::string> out;
  const fs::path folder = folder_of(owner) / "input";
  std::error_code code;
  for (fs::recursive_directory_iterator each(folder, fs::directory_options::skip_permission_denied, code), end;
       !code && each != end && out.size() < kMost; each.increment(code)) {
    std::error_code ignored;
    const std::string name = each->path().filename().string();
    if (name[0] == '.' || !each->is_regular_file(ignored)) continue;
    if (std::find(endings.begin(), endings.end(), lower_ending(name)) != endings.end())
      out.push_back(each->path().lexically_relative(folder).generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string media_type(const std::string& name) {
  static const std::map<std::string, std::string> known{
      {".png", "image/png"}, {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"},     {".webp", "image/webp"}, {".gif", "image/gif"},
      {".mp4", "video/mp4"}, {".m4v", "video/mp4"},  {".mov", "video/quicktime"}, {".webm", "video/webm"}, {".mkv", "video/x-matroska"},
      {".wav", "audio/wav"}, {".mp3", "audio/mpeg"}, {".flac", "audio/flac"},     {".ogg", "audio/ogg"},   {".m4a", "audio/mp4"}};
  const auto found = known.find(lower_ending(name));
  return found == known.end() ? "application/octet-stream" : found->second;
}

}  // namespace tritium::server::comfy
