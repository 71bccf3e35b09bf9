#include "server/http/keys.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/try.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <algorithm>
#include <charconv>

namespace tritium::http {
namespace {

constexpr std::size_t kMinKeyLength = 16;
constexpr std::uint64_t kMaxFileBytes = 1 << 20;

Error bad_line(const std::string& file, int line, std::string what) {
  return {ErrorCode::usage, fmt::format("'{}', line {}: {}", file, line, std::move(what)), "",
          "a line is: name key [max_queued=N] [requests_per_minute=N]"};
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  constexpr std::string_view kSpace = " \t\r";
  while (true) {
    const std::size_t first = line.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return out;
    line.remove_prefix(first);
    const std::size_t end = std::min(line.find_first_of(kSpace), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Names stand in log lines and database columns.
bool valid_name(std::string_view name) {
  return name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' ||
                  c == '@';
         });
}

bool read_option(std::string_view word, ApiKey& key) {
  for (const auto& [name, target] : {std::pair<std::string_view, std::optional<int>*>{"max_queued=", &key.max_queued},
                                     {"requests_per_minute=", &key.requests_per_minute}}) {
    if (!word.starts_with(name)) continue;
    const std::string_view digits = word.substr(name.size());
    int value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc() || end != digits.data() + digits.size() || value < 1) return false;
    *target = value;
    return true;
  }
  return false;
}

bool same_digest(std::string_view a, std::string_view b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace

Result<std::shared_ptr<ApiKeys>> ApiKeys::load(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0)
    return Error{ErrorCode::usage, fmt::format("cannot read the key file '{}': {}", file.string(), system_message(errno)), "", ""};
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return Error{ErrorCode::usage,
                 fmt::format("the key file '{}' can be read or changed by others (mode {:o})", file.string(), info.st_mode & 0777u), "",
                 "chmod 600, or 640 for a group that may read it"};
  auto text = read_file(file, kMaxFileBytes);
  if (!text.ok()) return Error{ErrorCode::usage, text.error().message, "", text.error().hint};
  return parse(*text, file.string());
}

Result<std::shared_ptr<ApiKeys>> ApiKeys::parse(std::string_view text, const std::string& shown_name) {
  auto out = std::make_shared<ApiKeys>();
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const auto words = words_of(line);
    if (words.empty()) continue;
    if (words.size() < 2) return bad_line(shown_name, number, "there is no key behind the name");
    if (!valid_name(words[0])) return bad_line(shown_name, number, "a name has at most 64 letters, digits and '-_.@'");
    if (words[1].size() < kMinKeyLength)
      return bad_line(shown_name, number, fmt::format("the key is shorter than {} characters", kMinKeyLength));
    Entry entry{{std::string(words[0]), {}, {}}, sha256_hex(words[1])};
    for (std::size_t i = 2; i < words.size(); ++i)
      if (!read_option(words[i], entry.key)) return bad_line(shown_name, number, "an option is unknown or not a whole number above 0");
    for (const Entry& other : out->entries_) {
      if (other.key.name == entry.key.name) return bad_line(shown_name, number, "the name stands in an earlier line");
      if (other.digest == entry.digest) return bad_line(shown_name, number, "the key stands in an earlier line");
    }
    out->entries_.push_back(std::move(entry));
  }
  if (out->entries_.empty()) return Error{ErrorCode::usage, fmt::format("'{}' holds no key", shown_name), "", "a line is: name key"};
  return out;
}

const ApiKey* ApiKeys::find(std::string_view key) const {
  const std::string digest = sha256_hex(key);
  const ApiKey* out = nullptr;
  for (const Entry& entry : entries_)
    if (same_digest(entry.digest, digest)) out = &entry.key;
  return out;
}

const ApiKey* ApiKeys::find_name(std::string_view name) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key.name == name; });
  return it == entries_.end() ? nullptr : &it->key;
}

double ApiKeys::take(const ApiKey& key, double now) {
  if (!key.requests_per_minute) return 0;
  const double limit = *key.requests_per_minute, per_second = limit / 60;
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = buckets_.try_emplace(key.name, Bucket{limit, now});
  Bucket& bucket = it->second;
  bucket.tokens = std::min(limit, bucket.tokens + (now - bucket.time) * per_second);
  bucket.time = now;
  if (bucket.tokens < 1) return (1 - bucket.tokens) / per_second;
  bucket.tokens -= 1;
  return 0;
}

}  // namespace tritium::http
