// callback_url: proved, then told of every state.
#include "minimax_server.h"
#include "server/http/server.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tritium::test {
namespace {

// Somebody who wants to be called.
class Hook {
 public:
  Hook() {
    http::Router router;
    router.add("POST", "/hook", [this](const http::HttpRequest& request) {
      const auto body = OrderedJson::parse(request.body);
      if (body.contains("challenge")) return http::HttpResponse::json(200, OrderedJson{{"challenge", body["challenge"]}}.dump());
      const std::lock_guard lock(mutex_);
      heard_.push_back(body);
      changed_.notify_all();
      return http::HttpResponse::json(200, "{}");
    });
    router.add("POST", "/deaf", [](const http::HttpRequest&) { return http::HttpResponse::json(200, "{\"challenge\": \"?\"}"); });
    auto server = http::Server::start({}, std::move(router));
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  [[nodiscard]] std::string url(const std::string& path) const { return server_->url() + path; }
  [[nodiscard]] std::vector<std::string> hosts() const { return {"127.0.0.1:" + std::to_string(server_->port())}; }
  std::vector<OrderedJson> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return heard_.size() >= count; });
    return heard_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<OrderedJson> heard_;
  std::unique_ptr<http::Server> server_;
};

minimax::Options calling(const Hook& hook) {
  minimax::Options out;
  out.urls.allowed = true;
  out.urls.hosts = hook.hosts();
  return out;
}

TEST(MinimaxCallback, EveryStateIsTold) {
  Hook hook;
  MinimaxServer server(calling(hook));
  OrderedJson body = text_to_video();
  body["callback_url"] = hook.url("/hook");
  const std::string id = server.create(body);
  server.create(text_to_video());  // nobody asked to be told of this one
  server.service.run(id);
  server.service.complete(id);
  const auto heard = hook.wait_for(3);
  ASSERT_EQ(heard.size(), 3u);
  EXPECT_EQ(heard[0]["status"], "queued");
  EXPECT_EQ(heard[1]["status"], "running");
  EXPECT_EQ(heard[2]["status"], "succeeded");
  EXPECT_EQ(heard[2]["task_id"], id);
  EXPECT_EQ(heard[2]["task"]["content"]["url"], "http://127.0.0.1:8000/v2/download/" + id + "/video.mp4");
}

TEST(MinimaxCallback, AServerThatStartsAgainGoesOn) {
  Hook hook;
  MinimaxServer server(calling(hook));
  OrderedJson body = text_to_video();
  body["callback_url"] = hook.url("/hook");
  const std::string id = server.create(body);
  hook.wait_for(1);
  server.router = {};
  minimax::Options options = calling(hook);
  options.spool = server.spool.path();
  minimax::add_routes(server.router, server.service, options);
  server.service.run(id);
  EXPECT_EQ(hook.wait_for(2).back()["status"], "running");
}

TEST(MinimaxCallback, AddressesThatDoNotProveThemselves) {
  Hook hook;
  MinimaxServer server(calling(hook));
  OrderedJson body = text_to_video();
  for (const std::string& url : {hook.url("/deaf"), hook.url("/nothing"), std::string("http://127.0.0.1:9/x"), std::string("file:///x")}) {
    body["callback_url"] = url;
    EXPECT_EQ(server.refusal(body).rfind("callback_url: ", 0), 0u) << url;
  }
  EXPECT_TRUE(server.service.jobs().empty());
}

}  // namespace
}  // namespace tritium::test
