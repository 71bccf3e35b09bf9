// Routes called without a socket.
#pragma once

#include "server/http/router.h"

#include <gtest/gtest.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace tritium::test {

using OrderedJson = nlohmann::ordered_json;

inline http::HttpRequest request_for(const std::string& method, const std::string& target, std::string body = {}) {
  http::HttpRequest out;
  out.method = method;
  const std::size_t question = target.find('?');
  out.path = target.substr(0, question);
  out.body = std::move(body);
  out.id = "req_test";
  if (question == std::string::npos) return out;
  std::string rest = target.substr(question + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string pair = rest.substr(0, end);
    const std::size_t equal = pair.find('=');
    out.query.emplace_back(pair.substr(0, equal), equal == std::string::npos ? "" : pair.substr(equal + 1));
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return out;
}

inline http::HttpResponse answer(const http::Router& router, http::HttpRequest request) {
  const auto match = router.find(request.method, request.path);
  if (match.handler == nullptr) return router.error(request, match.known_path ? 405 : 404, Error{ErrorCode::not_found, "no route", "", ""});
  request.params = match.params;
  return (*match.handler)(request);
}

inline http::HttpResponse answer(const http::Router& router, const std::string& method, const std::string& target, std::string body = {}) {
  return answer(router, request_for(method, target, std::move(body)));
}

inline OrderedJson document(const http::HttpResponse& response) {
  const auto* text = std::get_if<std::string>(&response.body);
  if (text == nullptr) {
    ADD_FAILURE() << "the answer is no text";
    return {};
  }
  OrderedJson out = OrderedJson::parse(*text, nullptr, false);
  EXPECT_FALSE(out.is_discarded()) << *text;
  return out;
}

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string header_of(const http::HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

// A file of a form; it lies in `folder` as an upload would.
inline http::FormField form_file(const std::filesystem::path& folder, const std::string& name, const std::string& file_name,
                                 const std::string& content) {
  const auto path = folder / ("spooled_" + std::to_string(std::hash<std::string>{}(file_name + content)));
  std::ofstream(path, std::ios::binary) << content;
  http::FormField out;
  out.name = name;
  out.is_file = true;
  out.file_name = file_name;
  out.file = path;
  out.bytes = content.size();
  return out;
}

inline http::FormField form_value(const std::string& name, const std::string& value) {
  http::FormField out;
  out.name = name;
  out.value = value;
  return out;
}

}  // namespace tritium::test
