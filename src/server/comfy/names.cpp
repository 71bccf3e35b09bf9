#include "server/comfy/names.h"

#include "base/try.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <random>

namespace tritium::server::comfy {
namespace {

constexpr std::size_t kMaxName = 200;   // bytes
constexpr std::size_t kMaxFolders = 8;  // in each other

Error usage(std::string message, std::string hint = {}) { return Error{ErrorCode::usage, std::move(message), "", std::move(hint)}; }

std::string replaced(std::string text, std::int64_t width, std::int64_t height, std::int64_t now) {
  const std::time_t time = now;
  std::tm t{};
  ::gmtime_r(&time, &t);
  const std::array<std::pair<std::string, std::string>, 8> all{{{"%width%", std::to_string(width)},
                                                                {"%height%", std::to_string(height)},
                                                                {"%year%", std::to_string(t.tm_year + 1900)},
                                                                {"%month%", fmt::format("{:02}", t.tm_mon + 1)},
                                                                {"%day%", fmt::format("{:02}", t.tm_mday)},
                                                                {"%hour%", fmt::format("{:02}", t.tm_hour)},
                                                                {"%minute%", fmt::format("{:02}", t.tm_min)},
                                                                {"%second%", fmt::format("{:02}", t.tm_sec)}}};
  for (const auto& [mark, value] : all)
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  return text;
}

bool all_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

Result<void> check_file_name(const std::string& name) {
  if (name.empty()) return usage("the name is empty");
  if (name.size() > kMaxName) return usage(fmt::format("the name has {} bytes; allowed are {}", name.size(), kMaxName));
  if (name[0] == '.') return usage(fmt::format("'{}' begins with a dot", name), "choose a name without it");
  for (const char c : name)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      return usage("the name holds a slash, a backslash or a control character", "a name is one segment; use subfolder for folders");
  return {};
}

Result<std::vector<std::string>> check_subfolder(const std::string& subfolder) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at <= subfolder.size()) {
    const std::size_t end = std::min(subfolder.find('/', at), subfolder.size());
    const std::string segment = subfolder.substr(at, end - at);
    at = end + 1;
    if (segment.empty() && out.empty() && end == 0 && !subfolder.empty()) return usage(fmt::format("'{}' is absolute", subfolder));
    if (segment.empty() || segment == ".") continue;
    if (const auto fine = check_file_name(segment); !fine.ok())
      return usage(fmt::format("'{}' is no folder here: {}", subfolder, fine.error().message), "folders lie below the upload folder");
    out.push_back(segment);
  }
  if (out.size() > kMaxFolders) return usage(fmt::format("{} folders in each other; allowed are {}", out.size(), kMaxFolders));
  return out;
}

Result<OutputName> output_name(const std::string& prefix, std::int64_t width, std::int64_t height, std::int64_t now) {
  const std::string text = replaced(prefix, width, height, now);
  const std::size_t slash = text.rfind('/');
  const std::string stem = slash == std::string::npos ? text : text.substr(slash + 1);
  OutputName out{"", stem.empty() ? "ComfyUI" : stem};
  TRITIUM_TRY(check_file_name(out.stem));
  if (slash == std::string::npos) return out;
  if (slash == 0) return usage(fmt::format("'{}' is absolute", prefix), "write it like video/clip");
  TRITIUM_TRY_ASSIGN(const auto folders, check_subfolder(text.substr(0, slash)));
  out.subfolder = fmt::format("{}", fmt::join(folders, "/"));
  return out;
}

std::string clip_file_name(const std::string& stem, const std::string& prompt_id, std::size_t number) {
  std::string id = prompt_id;
  id.erase(std::remove(id.begin(), id.end(), '-'), id.end());
  return fmt::format("{}_{}_{:05}_.mp4", stem, id, number);
}

std::optional<ClipName> parse_clip_file_name(std::string_view name) {
  constexpr std::string_view kEnd = "_.mp4";
  constexpr std::size_t kId = 32, kNumber = 5;
  if (name.size() < kEnd.size() + kNumber + kId + 2 || name.substr(name.size() - kEnd.size()) != kEnd) return std::nullopt;
  name.remove_suffix(kEnd.size());
  const std::string_view digits = name.substr(name.size() - kNumber);
  ClipName out;
  if (const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out.number);
      code != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  name.remove_suffix(kNumber);
  if (name.back() != '_') return std::nullopt;
  name.remove_suffix(1);
  const std::string_view id = name.substr(name.size() - kId);
  if (!all_hex(id)) return std::nullopt;
  out.prompt_id = fmt::format("{}-{}-{}-{}-{}", id.substr(0, 8), id.substr(8, 4), id.substr(12, 4), id.substr(16, 4), id.substr(20));
  return out;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    if (hyphen ? text[i] != '-' : !all_hex(text.substr(i, 1))) return false;
  }
  return true;
}

std::string new_uuid() {
  std::random_device source;
  std::array<std::uint32_t, 4> r{};
  for (auto& each : r) each = source();
  const std::uint32_t version = (r[1] & 0xffff0fffu) | 0x4000u, variant = (r[2] & 0x3fffffffu) | 0x80000000u;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", r[0], version >> 16, version & 0xffff, variant >> 16, variant & 0xffff,
                     r[3]);
}

MarkedName split_mark(const std::string& name) {
  for (const char* type : {"input", "output", "temp"}) {
    const std::string mark = fmt::format(" [{}]", type);
    if (name.size() > mark.size() && name.compare(name.size() - mark.size(), mark.size(), mark) == 0)
      return {name.substr(0, name.size() - mark.size()), type};
  }
  return {name, ""};
}

}  // namespace tritium::server::comfy
