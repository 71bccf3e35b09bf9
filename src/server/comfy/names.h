// Names that clients meet: of clips that nodes save, of prompts, of uploaded files. None of them is ever a path of this machine.
#pragma once

#include <tritium/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritium::server::comfy {

struct OutputName {
  std::string subfolder, stem;  // "video" and "MiniMax_H3" of the prefix "video/MiniMax_H3"
};

// A node's filename_prefix: %width%, %height%, %year%, %month%, %day%, %hour%, %minute% and %second% (UTC) are replaced. Error (usage): a
// name that leads out of the folder (A12) or cannot be a name of a file.
Result<OutputName> output_name(const std::string& prefix, std::int64_t width, std::int64_t height, std::int64_t now);

// "MiniMax_H3_0123456789abcdef0123456789abcdef_00001_.mp4": the prompt's id makes it unique, the number is the output's place from 1.
std::string clip_file_name(const std::string& stem, const std::string& prompt_id, std::size_t number);
// The prompt's id and the number of such a name.
struct ClipName {
  std::string prompt_id;
  std::size_t number = 0;
};
std::optional<ClipName> parse_clip_file_name(std::string_view name);

bool is_uuid(std::string_view text);  // lower case, with hyphens
std::string new_uuid();

// A name for a file in the upload folder: one segment, no control characters, not hidden. Error (usage) says what is wrong.
Result<void> check_file_name(const std::string& name);
// "a/b", "" or "."; the segments. Error (usage): one that leads elsewhere.
Result<std::vector<std::string>> check_subfolder(const std::string& subfolder);

// "a.png [output]" → "a.png" and "output"; without a mark `type` is empty.
struct MarkedName {
  std::string name, type;
};
MarkedName split_mark(const std::string& name);

}  // namespace tritium::server::comfy
