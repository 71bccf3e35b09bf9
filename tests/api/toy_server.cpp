#include "api/toy_server.h"

#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

namespace tritium::test {

using http::HttpRequest;
using http::HttpResponse;

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

HttpResponse echo(const HttpRequest& request) {
  nlohmann::json out = {{"method", request.method}, {"path", request.path},   {"params", request.params},
                        {"query", request.query},   {"body", request.body},   {"form", nlohmann::json::array()},
                        {"id", request.id},         {"owner", request.owner}, {"remote", request.remote}};
  for (const auto& field : request.form)
    out["form"].push_back({{"name", field.name},
                           {"value", field.value},
                           {"file_name", field.file_name},
                           {"type", field.content_type},
                           {"is_file", field.is_file},
                           {"bytes", field.bytes},
                           {"content", field.is_file && field.bytes < 4096 ? content_of(field.file) : ""}});
  return HttpResponse::json(200, out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

ToyServer::ToyServer(http::ServerOptions options) {
  for (int i = 0; i < 5000; ++i) clip_ += fmt::format("{:04d},", i);
  folder_.write("clip.mp4", clip_);
  options.spool = folder_.path() / "spool";
  options.access_log = [this](const http::AccessRecord& record) {
    const std::lock_guard lock(mutex_);
    log_.push_back(record);
  };
  auto server = http::Server::start(std::move(options), routes());
  if (!server.ok()) throw std::runtime_error(server.error().text());
  server_ = std::move(server).value();
}

http::Router ToyServer::routes() {
  http::Router out;
  for (const char* method : {"GET", "POST"}) out.add(method, "/echo", echo);
  out.add("GET", "/videos/{id}", echo);
  out.add("GET", "/videos/list", [](const HttpRequest&) { return HttpResponse::text(200, "list"); });
  out.add("GET", "/videos/{id}/content", echo);
  out.add("DELETE", "/videos/{id}", [](const HttpRequest&) { return HttpResponse::empty(204); });
  out.add("GET", "/pages/{rest*}", echo);
  out.add("GET", "/health", [](const HttpRequest&) { return HttpResponse::text(200, "well"); });
  out.add("GET", "/throw", [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("a fault of the handler"); });
  out.add("GET", "/v1/throw", [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("a fault of the handler"); });
  out.add("GET", "/slow", [](const HttpRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(request.query_value("ms").value_or("300"))));
    return HttpResponse::text(200, "slow");
  });
  out.add("GET", "/split", [](const HttpRequest&) {
    HttpResponse response = HttpResponse::text(200, "x");
    response.headers.emplace_back("x-note", "a\r\nx-injected: yes");
    return response;
  });
  out.add("GET", "/file", [this](const HttpRequest& request) {
    return HttpResponse::file(folder_.path() / "clip.mp4", "video/mp4", "v1", request.query_value("name").value_or(""));
  });
  out.add("GET", "/lost", [this](const HttpRequest&) { return HttpResponse::file(folder_.path() / "none", "video/mp4", "v1"); });
  out.add("GET", "/big", [this](const HttpRequest&) {
    if (!std::filesystem::exists(folder_.path() / "big")) folder_.write("big", std::string(32u << 20, 'b'));
    return HttpResponse::file(folder_.path() / "big", "video/mp4");
  });
  out.add("GET", "/events", [this](const HttpRequest&) {
    return HttpResponse::event_stream([this](std::shared_ptr<http::Stream> stream) {
      stream->on_close([this] { ++closed_; });
      stream->write("data: first\n\n");
      const std::lock_guard lock(mutex_);
      streams_.push_back(std::move(stream));
    });
  });
  out.add("GET", "/count", [](const HttpRequest&) {
    return HttpResponse::event_stream([](const std::shared_ptr<http::Stream>& stream) {
      for (int i = 0; i < 3; ++i) stream->write(fmt::format("data: {}\n\n", i));
    });
  });
  out.add("GET", "/socket", [this](const HttpRequest&) {
    return HttpResponse::web_socket([this](std::shared_ptr<http::WebSocket> socket) {
      const std::weak_ptr<http::WebSocket> weak = socket;
      socket->on_text([weak](const std::string& text) {
        if (const auto alive = weak.lock()) alive->send_text("got " + text);
      });
      socket->on_close([this] { ++closed_; });
      socket->send_text("welcome");
      const std::lock_guard lock(mutex_);
      sockets_.push_back(std::move(socket));
    });
  });
  out.errors_below("/v1", [](const HttpRequest& request, int status, const Error& error) {
    return HttpResponse::json(status, nlohmann::json{{"v1", error.message}, {"path", request.path}}.dump());
  });
  return out;
}

std::vector<http::AccessRecord> ToyServer::log() {
  const std::lock_guard lock(mutex_);
  return log_;
}

std::size_t ToyServer::spooled() const {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "spool")) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

std::shared_ptr<http::Stream> ToyServer::stream() {
  const std::lock_guard lock(mutex_);
  return streams_.empty() ? nullptr : streams_.back();
}

std::shared_ptr<http::WebSocket> ToyServer::socket() {
  const std::lock_guard lock(mutex_);
  return sockets_.empty() ? nullptr : sockets_.back();
}

}  // namespace tritium::test
