#include "server/http/message.h"

#include <algorithm>

namespace tritium::http {

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  const auto it = std::find_if(headers.begin(), headers.end(), [&](const auto& field) { return field.first == lower_case_name; });
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

std::optional<std::string> HttpRequest::query_value(std::string_view name) const {
  const auto it = std::find_if(query.begin(), query.end(), [&](const auto& pair) { return pair.first == name; });
  if (it == query.end()) return std::nullopt;
  return it->second;
}

HttpResponse HttpResponse::json(int status, std::string document) {
  return {.status = status, .content_type = "application/json", .headers = {}, .body = std::move(document)};
}

HttpResponse HttpResponse::text(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .headers = {}, .body = std::move(text)};
}

HttpResponse HttpResponse::file(std::filesystem::path file, std::string content_type, std::string etag, std::string download_name) {
  return {.status = 200,
          .content_type = std::move(content_type),
          .headers = {},
          .body = FileBody{std::move(file), std::move(etag), std::move(download_name)}};
}

HttpResponse HttpResponse::event_stream(std::function<void(std::shared_ptr<Stream>)> open) {
  return {.status = 200,
          .content_type = "text/event-stream",
          .headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}},  // the latter for a proxy in between that would collect
          .body = StreamBody{std::move(open)}};
}

HttpResponse HttpResponse::web_socket(std::function<void(std::shared_ptr<WebSocket>)> open) {
  return {.status = 101, .content_type = "", .headers = {}, .body = WebSocketBody{std::move(open)}};
}

HttpResponse HttpResponse::empty(int status) { return {.status = status, .content_type = "", .headers = {}, .body = std::string()}; }

int http_status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::usage:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::conflict:
      return 409;
    case ErrorCode::does_not_fit:
      return 422;
    case ErrorCode::busy:
      return 503;
    default:
      return 500;
  }
}

}  // namespace tritium::http
