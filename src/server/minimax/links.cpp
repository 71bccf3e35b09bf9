#include "server/minimax/links.h"

#include "base/files.h"
#include "base/hash.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <random>

namespace tritium::server::minimax {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kKeyBytes = 32, kBlock = 64;

std::string bytes_of_hex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, code] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (code != std::errc{} || end != hex.data() + i + 2) return {};
    out += static_cast<char>(value);
  }
  return out;
}

std::string hex_of(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string random_key() {
  std::random_device source;
  std::string out;
  while (out.size() < kKeyBytes) {
    const std::uint32_t word = source();
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>((word >> shift) & 0xff);
  }
  return out;
}

std::string load_key(const fs::path& folder) {
  const fs::path file = folder / "link_key";
  if (const auto text = read_file(file, 4096); text.ok())
    if (const std::string key = bytes_of_hex(text->substr(0, 2 * kKeyBytes)); key.size() == kKeyBytes) return key;
  const std::string key = random_key();
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  if (auto target = AtomicFile::create(file); target.ok()) {
    fs::permissions(target->temporary_path(), fs::perms::owner_read | fs::perms::owner_write, ignored);
    if (target->write(hex_of(key)).ok()) static_cast<void>(target->commit().ok());
  }
  return key;
}

// Takes as long whatever differs.
bool equal(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned differences = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    differences |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  return differences == 0;
}

}  // namespace

std::string hmac_sha256(const std::string& key, const std::string& message) {
  std::string block = key.size() > kBlock ? bytes_of_hex(sha256_hex(key)) : key;
  block.resize(kBlock, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256_hex(outer + bytes_of_hex(sha256_hex(inner + message)));
}

Links::Links(const fs::path& folder, const Options& options)
    : key_(load_key(folder)),
      public_url_(options.public_url),
      https_(options.https),
      signed_(options.sign_links),
      seconds_(static_cast<std::int64_t>(options.link_seconds)) {
  while (!public_url_.empty() && public_url_.back() == '/') public_url_.pop_back();
}

std::string Links::signature(const std::string& id, const std::string& owner, const std::string& expires) const {
  return hmac_sha256(key_, fmt::format("{}\n{}\n{}", id, hex_of(owner), expires));
}

std::string Links::base_of(const http::HttpRequest& request) const {
  if (!public_url_.empty()) return public_url_;
  const std::string host(request.header("host"));
  const bool https = https_ || request.header("x-forwarded-proto") == "https";  // of a proxy in front
  return fmt::format("{}://{}", https ? "https" : "http", host.empty() ? "localhost" : host);
}

std::string Links::address(const std::string& base, const std::string& id, const std::string& owner, std::int64_t now) const {
  const std::string out = fmt::format("{}/v2/download/{}/video.mp4", base, id);
  if (!signed_) return out;
  const std::string expires = std::to_string(now + seconds_);
  return out + fmt::format("?owner={}&expires={}&signature={}", hex_of(owner), expires, signature(id, owner, expires));
}

Result<std::string> Links::owner_of(const http::HttpRequest& request, const std::string& id, std::int64_t now) const {
  if (!signed_) return request.owner;
  const Error refused{ErrorCode::usage, "the link is not valid or its time is over", "signature",
                      "query the task again: the answer has a new link"};
  const std::string expires = request.query_value("expires").value_or("");
  const std::string owner = bytes_of_hex(request.query_value("owner").value_or(""));
  std::int64_t end = 0;
  const auto [stop, code] = std::from_chars(expires.data(), expires.data() + expires.size(), end);
  if (code != std::errc{} || stop != expires.data() + expires.size() || end < now) return refused;
  if (!equal(request.query_value("signature").value_or(""), signature(id, owner, expires))) return refused;
  return owner;
}

}  // namespace tritium::server::minimax
