#include "weights/gguf_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <charconv>

namespace tritium {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSuffix = ".gguf", kOf = "-of-";
constexpr std::size_t kDigits = 5, kTail = 1 + kDigits + kOf.size() + kDigits;  // "-00001-of-00003"

Error bad(std::string message, std::string hint = {}) { return Error{ErrorCode::model, std::move(message), "", std::move(hint)}; }

std::optional<int> number_in(std::string_view digits) {
  int value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return code == std::errc() && end == digits.data() + digits.size() && value > 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<GgufSplit> parse_gguf_split(const fs::path& path) {
  std::string name = path.filename().string();
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.resize(name.size() - kSuffix.size());
  if (name.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = number_in(tail.substr(1, kDigits)), count = number_in(tail.substr(kTail - kDigits));
  if (!number || !count || *number > *count) return std::nullopt;
  return GgufSplit{name.substr(0, name.size() - kTail), *number, *count};
}

Result<std::vector<fs::path>> gguf_split_files(const fs::path& path, const GgufSplit& split) {
  std::vector<fs::path> files;
  std::vector<std::string> missing;
  std::error_code ignored;
  for (int i = 1; i <= split.count; ++i) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}{}", split.stem, i, split.count, kSuffix);
    files.push_back(path.parent_path() / name);
    if (!fs::exists(files.back(), ignored)) missing.push_back(name);
  }
  if (missing.empty()) return files;
  constexpr std::size_t kShown = 20;
  const std::size_t total = missing.size();
  if (total > kShown) missing.resize(kShown);
  return bad(fmt::format("{} of the {} files of '{}' are missing: {}{}", total, split.count, path.string(), fmt::join(missing, ", "),
                         total > kShown ? ", ..." : ""),
             "download them, or check for dangling links");
}

Result<void> check_gguf_split(const fs::path& path, const FileHeader& header, int number, int count) {
  const auto value_of = [&](const char* key) -> std::optional<int> {
    const auto found = header.metadata.find(key);
    if (found == header.metadata.end()) return std::nullopt;
    int value = -1;
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
    return value;
  };
  const auto said_count = value_of("split.count"), said_number = value_of("split.no");
  if (said_count && *said_count != count && (*said_count != 0 || count != 1))
    return bad(fmt::format("'{}' says that it is one of {} files, its name says one of {}", path.string(), *said_count, count),
               "pieces keep their names: NAME-00001-of-0000N.gguf");
  if (said_number && *said_number + 1 != number)
    return bad(fmt::format("'{}' says that it is file {}, its name says {}", path.string(), *said_number + 1, number),
               "the files were renamed; pieces keep their names: NAME-00001-of-0000N.gguf");
  return {};
}

}  // namespace tritium
