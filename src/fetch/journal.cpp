#include "fetch/journal.h"

#include "base/files.h"
#include "base/try.h"
#include "fetch/io.h"
#include "fetch/ranges.h"

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <nlohmann/json.hpp>

namespace tritium::fetch {
namespace {

using json = nlohmann::json;
constexpr int kFormat = 1;
constexpr std::uint64_t kMaxJournalBytes = 256u << 20;

std::string head_line(const JournalHead& head) {
  const nlohmann::ordered_json line{{"format", kFormat}, {"size", head.size}, {"url", head.url}, {"identity", head.identity}};
  return line.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

std::string range_line(const HashedRange& r) {
  const nlohmann::ordered_json line{{"first", r.range.first}, {"bytes", r.range.size()}, {"sha256", r.sha256}};
  return line.dump() + "\n";
}

std::optional<std::uint64_t> count(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::optional<std::string> text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<JournalHead> parse_head(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object() || count(object, "format") != kFormat) return std::nullopt;
  const auto size = count(object, "size");
  auto url = text(object, "url"), identity = text(object, "identity");
  if (!size || !url || !identity) return std::nullopt;
  return JournalHead{*size, std::move(*url), std::move(*identity)};
}

std::optional<HashedRange> parse_range(std::string_view line, std::uint64_t size) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto first = count(object, "first"), bytes = count(object, "bytes");
  auto hash = text(object, "sha256");
  if (!first || !bytes || !hash || *bytes == 0 || *first > size || *bytes > size - *first || hash->size() != 64) return std::nullopt;
  return HashedRange{{*first, *first + *bytes}, std::move(*hash)};
}

}  // namespace

std::optional<JournalContent> parse_journal(std::string_view text) {
  JournalContent out;
  Ranges seen;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // cut off while it was written
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (first) {
      auto head = parse_head(line);
      if (!head) return std::nullopt;
      out.head = std::move(*head);
      first = false;
    } else if (auto range = parse_range(line, out.head.size); range && !seen.overlaps(range->range)) {
      seen.add(range->range);
      out.ranges.push_back(std::move(*range));
    }
  }
  if (first) return std::nullopt;
  return out;
}

std::optional<JournalContent> read_journal(const std::filesystem::path& path) {
  const auto text = read_file(path, kMaxJournalBytes);
  return text.ok() ? parse_journal(*text) : std::nullopt;
}

Result<Journal> Journal::create(const std::filesystem::path& path, const JournalContent& content) {
  std::string lines = head_line(content.head);
  for (const HashedRange& range : content.ranges) lines += range_line(range);
  TRITIUM_TRY(write_file_atomically(path, lines));
  Journal out;
  out.path_ = path;
  out.fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (out.fd_ < 0) return io_error("open", path, errno);
  return out;
}

Journal& Journal::operator=(Journal&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

Journal::~Journal() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> Journal::append(const HashedRange& range) {
  // The line feed in front ends a line that an earlier attempt could not finish; an empty line means nothing.
  TRITIUM_TRY(write_all(fd_, path_, "\n" + range_line(range)));
  if (::fdatasync(fd_) != 0) return io_error("flush", path_, errno);
  return {};
}

}  // namespace tritium::fetch
