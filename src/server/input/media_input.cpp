#include "server/input/media_input.h"

#include "base/files.h"
#include "base/system.h"
#include "base/try.h"
#include "fetch/address.h"
#include "server/input/base64.h"
#include "server/input/media_type.h"
#include "server/input/url_fetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <fstream>

namespace tritium::server {
namespace {

Error usage(std::string message, const std::string& field, std::string hint = "") {
  return {ErrorCode::usage, std::move(message), field, std::move(hint)};
}

bool begins(const std::string& text, std::string_view scheme) {
  return text.size() >= scheme.size() && std::equal(scheme.begin(), scheme.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

// The start of what a client sent, for a message.
std::string start_of(const std::string& text) {
  std::string out = text.substr(0, 40);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return text.size() > 40 ? out + "..." : out;
}

// A new file of the folder, under a name that nobody else has. Removed with this object unless it has been named.
class NewFile {
 public:
  ~NewFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Result<void> open(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::string name = (folder / "input-XXXXXX.part").string();
    descriptor_ = error ? -1 : ::mkostemps(name.data(), 5, O_CLOEXEC);
    if (descriptor_ < 0) return failed(error ? error.value() : errno);
    path_ = name;
    return {};
  }
  Result<void> write(std::string_view bytes) {
    if (first_.size() < kSniffBytes) first_.append(bytes.substr(0, kSniffBytes - first_.size()));
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed(errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }
  // Gives it its suffix and lets go of it.
  Result<std::filesystem::path> name(const std::string& content_type) {
    std::filesystem::path target = path_;
    target.replace_extension(media_suffix(first_, content_type));
    if (::rename(path_.c_str(), target.c_str()) != 0) return failed(errno);
    path_.clear();
    return target;
  }
  // Another file takes the place of this one.
  Result<void> replace_by(const std::filesystem::path& other) {
    std::string begin(kSniffBytes, '\0');
    std::ifstream in(other, std::ios::binary);
    in.read(begin.data(), kSniffBytes);
    first_ = begin.substr(0, static_cast<std::size_t>(in.gcount()));
    if (::rename(other.c_str(), path_.c_str()) == 0) return {};
    if (errno != EXDEV) return failed(errno);
    std::error_code error;
    std::filesystem::copy_file(other, path_, std::filesystem::copy_options::overwrite_existing, error);
    if (error) return failed(error.value());
    std::filesystem::remove(other, error);
    return {};
  }

 private:
  static Error failed(int code) {
    const bool full = code == ENOSPC || code == EDQUOT;
    return {full ? ErrorCode::busy : ErrorCode::failure, fmt::format("an input cannot be kept: {}", system_message(code)), "",
            full ? "the server's disk is full; free space there" : "see the server's data folder"};
  }
  int descriptor_ = -1;
  std::filesystem::path path_;
  std::string first_;
};

// "data:image/png;base64,...."
Result<void> write_data(const std::string& uri, const std::string& field, std::uint64_t limit, NewFile& file, std::string& content_type) {
  const std::size_t comma = uri.find(',');
  constexpr std::string_view kEncoding = ";base64";
  const std::string head = uri.substr(5, comma == std::string::npos ? 0 : comma - 5);
  if (comma == std::string::npos || !head.ends_with(kEncoding))
    return usage(fmt::format("'{}' is not a data: address with base64", start_of(uri)), field, "write data:image/png;base64,...");
  const std::string_view text = std::string_view(uri).substr(comma + 1);
  if (text.empty()) return usage("the data: address is empty", field);
  if (base64_bytes(text) > limit)
    return usage(fmt::format("the data: address holds more than the limit of {}", format_bytes(limit)), field);
  content_type = head.substr(0, head.find(';'));
  constexpr std::size_t kPiece = 1 << 20;  // of text, a multiple of four
  for (std::size_t at = 0; at < text.size(); at += kPiece) {
    const std::string_view piece = text.substr(at, kPiece);
    const bool is_last = at + kPiece >= text.size();
    const auto bytes = is_last || piece.find('=') == std::string_view::npos ? base64_decoded(piece) : std::nullopt;
    if (!bytes) return usage("the data: address is not valid base64", field, "the standard alphabet with padding, without line breaks");
    TRITIUM_TRY(file.write(*bytes));
  }
  return {};
}

}  // namespace

MediaInputs::MediaInputs(std::filesystem::path spool, UrlPolicy policy) : spool_(std::move(spool)), policy_(std::move(policy)) {}

MediaInputs::~MediaInputs() {
  for (const auto& file : files_) ::unlink(file.c_str());
}

Result<std::filesystem::path> MediaInputs::from_uri(const std::string& uri, const std::string& field) {
  const bool is_data = begins(uri, "data:"), is_web = begins(uri, "http://") || begins(uri, "https://");
  if (!is_data && !is_web)
    return usage(fmt::format("'{}' is not an address that is taken", start_of(uri)), field,
                 policy_.allowed ? "send the file itself, a data: address, or an http: or https: address"
                                 : "send the file itself or a data: address");
  if (is_web && !policy_.allowed)
    return usage(fmt::format("'{}' is not fetched: this server takes no web addresses", fetch::shown(uri)), field,
                 "send the file itself or a data: address; the server's operator can allow them with --allow-url-inputs");
  NewFile file;
  TRITIUM_TRY(file.open(spool_));
  std::string content_type;
  if (is_data) {
    TRITIUM_TRY(write_data(uri, field, policy_.max_bytes, file, content_type));
  } else {
    auto fetched = fetch_url(uri, policy_, [&](std::string_view bytes) { return file.write(bytes); });
    if (!fetched.ok()) {
      Error error = std::move(fetched).error();
      error.field = field;
      return error;
    }
    content_type = std::move(fetched->content_type);
  }
  TRITIUM_TRY_ASSIGN(std::filesystem::path out, file.name(content_type));
  files_.push_back(out);
  return out;
}

Result<std::filesystem::path> MediaInputs::from_form(const http::FormField& field) {
  if (!field.is_file) return usage(fmt::format("the field '{}' is not a file", field.name), field.name, "send it with a file name");
  if (field.bytes == 0) return usage(fmt::format("the file of the field '{}' is empty", field.name), field.name);
  NewFile file;
  TRITIUM_TRY(file.open(spool_));
  TRITIUM_TRY(file.replace_by(field.file));
  TRITIUM_TRY_ASSIGN(std::filesystem::path out, file.name(field.content_type));
  files_.push_back(out);
  return out;
}

}  // namespace tritium::server
