// What a request of this dialect asks for, apart from HTTP and files.
#pragma once

#include <tritium/request.h>
#include <tritium/result.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tritium::server::minimax {

using Json = nlohmann::ordered_json;

enum class Role { first_frame, last_frame, reference_image, reference_video, reference_audio };
const char* role_name(Role role);

struct MediaItem {
  Role role = Role::first_frame;
  std::string url;    // "https:", "data:" or "mm_file://ID"
  std::string field;  // "content[1].image_url.url"
};

// Something that is done in another way than asked.
struct Note {
  std::string field, from, to, reason;
};

struct Creation {
  int version = 2;  // of the interface
  std::string model = "MiniMax-H3";
  std::string prompt;
  std::vector<MediaItem> media;
  std::string resolution = "768P";
  std::string ratio;  // as asked; "adaptive" or empty: none
  std::int64_t duration = 5;
  std::optional<std::uint64_t> seed;
  std::string callback_url;
  std::string link_base;  // in front of the link that a callback brings: "https://host"
  std::vector<Note> notes;
};

// Bodies of POST /v2/video_generation and /v1/video_generation. Errors (usage) name field, value, range and fix.
Result<Creation> read_v2(const Json& body);
Result<Creation> read_v1(const Json& body);

// `resolve` gives the file of an item.
Result<Request> request_of(const Creation& creation, const std::function<Result<std::filesystem::path>(const MediaItem&)>& resolve);

// A document of a stranger. Error (usage): not a JSON object, or deeper than 100 levels.
Result<Json> parse_object(const std::string& text);
// As text; bytes that are not UTF-8 are replaced.
std::string text_of(const Json& document);

}  // namespace tritium::server::minimax
