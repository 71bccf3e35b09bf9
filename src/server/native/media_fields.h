// Pictures, videos and sounds of a request body.
#pragma once

#include "server/native/fields.h"
#include "server/native/translate.h"

namespace tritium::server::native {

// What the body says besides about how its files are meant.
struct MediaIntent {
  std::string task;                           // "t2va", "fl2va", "ref2va" or empty
  std::optional<std::vector<int>> keyframes;  // frame_indices: 0 and -1
};

// Resolves URIs: "data:", "http(s):", "form:NAME" and "tritium:JOB/INPUT".
Result<std::filesystem::path> resolve(const Sources& sources, const std::string& uri, const std::string& field);

// Fills the request's files. Errors go to `fields`.
void read_media(const Sources& sources, Fields& fields, const MediaIntent& intent, Request& request);

// What a file is, by its first bytes.
ReferenceInput::Kind kind_of_file(const std::filesystem::path& file);

}  // namespace tritium::server::native
