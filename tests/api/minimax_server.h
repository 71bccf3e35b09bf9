// The MiniMax routes in front of a service in memory.
#pragma once

#include "routed.h"
#include "server/minimax/minimax.h"
#include "support/fake_job_service.h"

namespace tritium::test {

namespace minimax = server::minimax;

struct MinimaxServer {
  FakeJobService service;
  TempFolder spool;
  http::Router router;

  explicit MinimaxServer(minimax::Options options = {}) {
    options.spool = spool.path();
    minimax::add_routes(router, service, options);
  }
  ~MinimaxServer() { router = {}; }

  http::HttpResponse call(const std::string& method, const std::string& target, const OrderedJson& body = nullptr) {
    auto request = request_for(method, target, body.is_null() ? "" : body.dump());
    request.headers.emplace_back("host", "127.0.0.1:8000");
    return answer(router, std::move(request));
  }
  OrderedJson get(const std::string& target) {
    const auto response = call("GET", target);
    EXPECT_EQ(response.status, 200) << target;
    return document(response);
  }
  std::string create(const OrderedJson& body) {
    const auto response = call("POST", "/v2/video_generation", body);
    EXPECT_EQ(response.status, 200) << document(response).dump(1);
    return document(response).value("task_id", "");
  }
  // The message of a refusal, which has to have the shape of this dialect.
  std::string refusal(const OrderedJson& body) {
    const auto response = call("POST", "/v2/video_generation", body);
    EXPECT_EQ(response.status, 400);
    const auto out = document(response);
    EXPECT_EQ(out["type"], "error");
    EXPECT_EQ(out["error"]["type"], "bad_request_error");
    EXPECT_EQ(out["error"]["http_code"], "400");
    EXPECT_EQ(out["request_id"], "req_test");
    const std::string message = out["error"]["message"];
    EXPECT_EQ(message.substr(message.size() - 7), " (2013)");
    return message.substr(0, message.size() - 7);
  }
  std::int64_t upload(const std::string& name, const std::string& content) {
    auto request = request_for("POST", "/v1/files/upload");
    request.is_form = true;
    request.form = {form_value("purpose", "video_generation"), form_file(spool.path(), "file", name, content)};
    return document(answer(router, std::move(request)))["file"]["file_id"];
  }
};

inline OrderedJson text_item(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
inline OrderedJson media_item(const std::string& type, const std::string& role, const std::string& url) {
  return {{"type", type}, {type, {{"url", url}}}, {"role", role}};
}
inline OrderedJson text_to_video() {
  return {{"model", "MiniMax-H3"}, {"content", {text_item("waves")}}, {"resolution", "768P"}, {"duration", 5}, {"ratio", "16:9"}};
}

// A picture of one pixel.
inline constexpr const char* kPixel =
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

}  // namespace tritium::test
