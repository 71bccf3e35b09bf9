#include "server/minimax/files.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/try.h"
#include "server/minimax/fields.h"

#include <fmt/format.h>
#include <algorithm>
#include <random>

namespace tritium::server::minimax {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxName = 255;  // bytes

// Fifteen digits: whole numbers of this length survive every client's JSON.
std::int64_t new_id() {
  std::random_device source;
  const std::uint64_t word = (std::uint64_t{source()} << 32) | source();
  return static_cast<std::int64_t>(100'000'000'000'000 + word % 900'000'000'000'000);
}

bool is_id(const std::string& text) {
  return text.size() == 15 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Result<StoredFile> read_entry(const fs::path& folder) {
  TRITIUM_TRY_ASSIGN(const std::string text, read_file(folder / "file.json", 65536));
  const Json entry = Json::parse(text, nullptr, false);
  StoredFile out;
  try {
    out.id = entry.at("file_id").get<std::int64_t>();
    out.name = entry.at("filename").get<std::string>();
    out.purpose = entry.at("purpose").get<std::string>();
    out.bytes = entry.at("bytes").get<std::uint64_t>();
    out.created = entry.at("created_at").get<std::int64_t>();
  } catch (const Json::exception&) { return Error{ErrorCode::failure, "'" + (folder / "file.json").string() + "' cannot be read", "", ""}; }
  out.path = folder / ("content" + fs::path(out.name).extension().string());
  return out;
}

}  // namespace

Files::Files(fs::path folder, std::uint64_t max_bytes, double keep_days)
    : folder_(std::move(folder)), max_bytes_(max_bytes), keep_days_(keep_days) {}

fs::path Files::folder_of(const std::string& owner) const { return folder_ / ("owner_" + sha256_hex(owner).substr(0, 16)); }

std::vector<StoredFile> Files::read_all(const fs::path& folder) const {
  std::vector<StoredFile> out;
  std::error_code code;
  for (fs::directory_iterator each(folder, code), end; !code && each != end; each.increment(code))
    if (auto entry = read_entry(each->path()); entry.ok()) out.push_back(std::move(*entry));
  std::sort(out.begin(), out.end(), [](const StoredFile& a, const StoredFile& b) { return a.created > b.created; });
  return out;
}

Result<StoredFile> Files::store(const std::string& owner, const http::FormField& file, const std::string& purpose, std::int64_t now) {
  if (file.file_name.empty() || file.file_name.size() > kMaxName)
    return wrong("file", "its name is missing or too long", "send a file with a name");
  const std::lock_guard lock(mutex_);
  const fs::path folder = folder_of(owner);
  std::error_code code;
  std::uint64_t there = 0;
  for (const StoredFile& each : read_all(folder)) {
    const bool old = keep_days_ > 0 && static_cast<double>(now - each.created) > keep_days_ * 86400;
    if (old) fs::remove_all(folder / std::to_string(each.id), code);
    there += old ? 0 : each.bytes;
  }
  if (there + file.bytes > max_bytes_)
    return Error{ErrorCode::busy,
                 fmt::format("uploaded files take {}; with this one of {} they would be more than the {} that are allowed",
                             format_bytes(there), format_bytes(file.bytes), format_bytes(max_bytes_)),
                 "file", "delete files that are not needed any more"};
  // The name is only remembered; the ending helps whoever looks into the folder.
  std::string ending = fs::path(file.file_name).extension().string();
  if (ending.size() > 8 ||
      std::any_of(ending.begin(), ending.end(), [](char c) { return c != '.' && std::isalnum(static_cast<unsigned char>(c)) == 0; }))
    ending.clear();
  StoredFile out{new_id(), file.file_name, purpose, file.bytes, now, {}};
  if (ending.empty()) out.name = fs::path(file.file_name).stem().string();
  const fs::path place = folder / std::to_string(out.id);
  out.path = place / ("content" + ending);
  fs::create_directories(place, code);
  fs::copy_file(file.file, out.path, code);
  const Json entry{{"file_id", out.id}, {"filename", out.name}, {"purpose", purpose}, {"bytes", out.bytes}, {"created_at", now}};
  const auto written = code ? Result<void>(Error{ErrorCode::failure, fmt::format("cannot store the file: {}", code.message()), "file", ""})
                            : write_file_atomically(place / "file.json", text_of(entry));
  if (!written.ok()) {
    fs::remove_all(place, code);
    return written.error();
  }
  return out;
}

Result<StoredFile> Files::find(const std::string& owner, const std::string& id) const {
  const Error absent{ErrorCode::not_found, fmt::format("there is no file '{}'", id.substr(0, 100)), "file_id",
                     "upload it with POST /v1/files/upload"};
  if (!is_id(id)) return absent;
  const std::lock_guard lock(mutex_);
  auto entry = read_entry(folder_of(owner) / id);
  return entry.ok() ? std::move(entry) : Result<StoredFile>(absent);
}

std::vector<StoredFile> Files::list(const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  return read_all(folder_of(owner));
}

Result<void> Files::remove(const std::string& owner, const std::string& id) {
  TRITIUM_TRY_ASSIGN(const StoredFile file, find(owner, id));
  const std::lock_guard lock(mutex_);
  std::error_code code;
  fs::remove_all(folder_of(owner) / std::to_string(file.id), code);
  if (code) return Error{ErrorCode::failure, fmt::format("cannot remove file {}: {}", id, code.message()), "", ""};
  return {};
}

}  // namespace tritium::server::minimax
