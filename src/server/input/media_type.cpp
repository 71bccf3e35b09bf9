#include "server/input/media_type.h"

#include <algorithm>
#include <utility>

namespace tritium::server {
namespace {

bool holds(std::string_view bytes, std::size_t at, std::string_view text) {
  return bytes.size() >= at && bytes.substr(at).starts_with(text);
}

std::string_view by_content(std::string_view bytes) {
  if (holds(bytes, 0, "\x89PNG\r\n\x1a\n")) return ".png";
  if (holds(bytes, 0, "\xff\xd8\xff")) return ".jpg";
  if (holds(bytes, 0, "GIF87a") || holds(bytes, 0, "GIF89a")) return ".gif";
  if (holds(bytes, 0, "RIFF") && holds(bytes, 8, "WEBP")) return ".webp";
  if (holds(bytes, 0, "RIFF") && holds(bytes, 8, "WAVE")) return ".wav";
  if (holds(bytes, 0, "RIFF") && holds(bytes, 8, "AVI ")) return ".avi";
  if (holds(bytes, 4, "ftypqt")) return ".mov";
  if (holds(bytes, 4, "ftypM4A")) return ".m4a";
  if (holds(bytes, 4, "ftyphe") || holds(bytes, 4, "ftypmif1")) return ".heic";
  if (holds(bytes, 4, "ftypavi")) return ".avif";
  if (holds(bytes, 4, "ftyp")) return ".mp4";
  if (holds(bytes, 0, "\x1a\x45\xdf\xa3")) return ".mkv";
  if (holds(bytes, 0, "OggS")) return ".ogg";
  if (holds(bytes, 0, "fLaC")) return ".flac";
  if (holds(bytes, 0, "ID3")) return ".mp3";
  return "";
}

std::string_view by_type(std::string_view type) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"image/png", ".png"}, {"image/jpeg", ".jpg"},  {"image/jpg", ".jpg"},       {"image/webp", ".webp"},      {"image/gif", ".gif"},
      {"video/mp4", ".mp4"}, {"video/webm", ".webm"}, {"video/quicktime", ".mov"}, {"video/x-matroska", ".mkv"}, {"audio/mpeg", ".mp3"},
      {"audio/mp3", ".mp3"}, {"audio/wav", ".wav"},   {"audio/x-wav", ".wav"},     {"audio/wave", ".wav"},       {"audio/flac", ".flac"},
      {"audio/ogg", ".ogg"}, {"audio/mp4", ".m4a"},   {"audio/aac", ".aac"},
  };
  for (const auto& [name, suffix] : kTypes)
    if (type == name) return suffix;
  return "";
}

}  // namespace

std::string media_suffix(std::string_view first_bytes, std::string_view content_type) {
  if (const std::string_view suffix = by_content(first_bytes); !suffix.empty()) return std::string(suffix);
  content_type = content_type.substr(0, content_type.find_first_of("; "));
  const std::string_view suffix = by_type(content_type);
  return suffix.empty() ? ".bin" : std::string(suffix);
}

}  // namespace tritium::server
