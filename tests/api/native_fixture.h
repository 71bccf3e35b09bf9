// The native dialect before a service in memory, called without sockets.
#pragma once

#include "server/native/native.h"
#include "support/fake_job_service.h"

#include <nlohmann/json.hpp>

#include <atomic>

namespace tritium::test {

// An event stream as a client sees it.
class FakeStream : public http::Stream {
 public:
  bool write(std::string bytes) override {
    const std::scoped_lock lock(mutex_);
    if (closed_) return false;
    text_ += bytes;
    return true;
  }
  void close() override {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  [[nodiscard]] bool closed() const override {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }
  void on_close(std::function<void()>) override {}
  [[nodiscard]] std::string text() const {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  bool closed_ = false;
};

class Native : public ::testing::Test {
 protected:
  Native() { mount(); }

  void mount() {
    router_ = http::Router();
    server::native::add_routes(router_, service_, {folder_.path() / "spool", policy_, sync_seconds_, sync_waiting_, 8});
  }

  http::HttpResponse call(http::HttpRequest request) {
    const auto query = request.path.find('?');
    if (query != std::string::npos) {
      std::string rest = request.path.substr(query + 1);
      request.path.resize(query);
      for (std::size_t at = 0; at < rest.size();) {
        const std::size_t end = std::min(rest.find('&', at), rest.size()), equals = std::min(rest.find('=', at), end);
        request.query.emplace_back(rest.substr(at, equals - at), equals < end ? rest.substr(equals + 1, end - equals - 1) : "");
        at = end + 1;
      }
    }
    request.id = "req_test";
    const auto match = router_.find(request.method, request.path);
    if (match.handler == nullptr)
      return router_.error(request, match.known_path ? 405 : 404, {ErrorCode::not_found, "there is no such path", "", ""});
    request.params = match.params;
    return (*match.handler)(request);
  }
  http::HttpResponse get(const std::string& path, const std::string& owner = {}) {
    http::HttpRequest request;
    request.method = "GET";
    request.path = path;
    request.owner = owner;
    return call(std::move(request));
  }
  http::HttpResponse send(const std::string& method, const std::string& path, const std::string& body = {},
                          std::vector<std::pair<std::string, std::string>> headers = {}) {
    http::HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.headers = std::move(headers);
    return call(std::move(request));
  }
  http::HttpResponse post(const std::string& path, const nlohmann::json& body) { return send("POST", path, body.dump()); }

  // A form; a field that begins with '@' is that file.
  http::HttpResponse form(const std::string& path, const std::vector<std::pair<std::string, std::string>>& fields) {
    http::HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.is_form = true;
    for (const auto& [name, value] : fields) {
      http::FormField field;
      field.name = name;
      field.is_file = value.starts_with('@');
      if (field.is_file) {
        field.file = folder_.path() / ("upload" + std::to_string(uploads_++));
        std::filesystem::copy_file(value.substr(1), field.file);
        field.bytes = std::filesystem::file_size(field.file);
        field.file_name = std::filesystem::path(value.substr(1)).filename();
      } else {
        field.value = value;
      }
      request.form.push_back(std::move(field));
    }
    return call(std::move(request));
  }

  static nlohmann::json json_of(const http::HttpResponse& response) {
    const auto* text = std::get_if<std::string>(&response.body);
    EXPECT_NE(text, nullptr);
    auto out = nlohmann::json::parse(text == nullptr ? "" : *text, nullptr, false);
    EXPECT_FALSE(out.is_discarded()) << (text == nullptr ? "" : *text);
    return out;
  }
  static std::string header_of(const http::HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers)
      if (key == name) return value;
    return {};
  }

  // A job from this body, which has to be accepted.
  Job accepted(const nlohmann::json& body) {
    const auto response = post("/v1/videos", body);
    EXPECT_EQ(response.status, 200) << std::get<std::string>(response.body);
    return response.status == 200 ? service_.jobs().back() : Job();
  }
  // The answer to a body that has to be refused: nothing is queued, and the error names the field and says each of these.
  void refused(const nlohmann::json& body, const std::string& field, const std::vector<std::string>& words = {}, int status = 400) {
    expect_refusal(post("/v1/videos", body), field, words, status, body.dump());
  }
  void expect_refusal(const http::HttpResponse& response, const std::string& field, const std::vector<std::string>& words, int status = 400,
                      const std::string& what = {}) {
    EXPECT_EQ(response.status, status) << what;
    const nlohmann::json document = json_of(response);
    const nlohmann::json error = document.value("error", nlohmann::json::object());
    EXPECT_EQ(error.value("param", nlohmann::json()), field.empty() ? nlohmann::json() : nlohmann::json(field)) << what << " " << error;
    for (const char* key : {"message", "type", "code"}) EXPECT_TRUE(error.contains(key) && error[key].is_string()) << what;
    EXPECT_TRUE(document.contains("detail"));
    for (const std::string& word : words)
      EXPECT_NE(error.value("message", "").find(word), std::string::npos) << what << ": '" << word << "' is not in " << error;
  }

  nlohmann::json video(const std::string& id) { return json_of(get("/v1/videos/" + id)); }

  TempFolder folder_;
  FakeJobService service_;
  server::UrlPolicy policy_;
  double sync_seconds_ = 5;
  int sync_waiting_ = 2;
  http::Router router_;
  std::atomic<int> uploads_ = 0;
};

}  // namespace tritium::test
