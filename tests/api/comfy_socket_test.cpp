// /ws: ComfyUI's events in ComfyUI's order.
#include "comfy_server.h"

namespace tritium::test {
namespace {

class Listener : public http::WebSocket {
 public:
  bool send_text(std::string text) override {
    texts.push_back(OrderedJson::parse(text));
    return true;
  }
  bool send_binary(std::string bytes) override {
    binaries.push_back(std::move(bytes));
    return true;
  }
  void close() override {
    if (std::exchange(closed, true)) return;
    if (on_close_) on_close_();
  }
  void on_text(std::function<void(const std::string&)> callback) override { say = std::move(callback); }
  void on_close(std::function<void()> callback) override { on_close_ = std::move(callback); }

  // "type" or "type(node)" of every message since the last call, without progress of one stage.
  std::vector<std::string> heard() {
    std::vector<std::string> out;
    for (const OrderedJson& each : std::exchange(texts, {})) {
      const auto& data = each["data"];
      const bool placed = data.contains("node");
      out.push_back(each["type"].get<std::string>() + (!placed                  ? ""
                                                       : data["node"].is_null() ? "(null)"
                                                                                : "(" + data["node"].get<std::string>() + ")"));
    }
    return out;
  }

  std::vector<OrderedJson> texts;
  std::vector<std::string> binaries;
  std::function<void(const std::string&)> say;
  bool closed = false;

 private:
  std::function<void()> on_close_;
};

std::shared_ptr<Listener> connect(ComfyServer& server, const std::string& client) {
  auto out = std::make_shared<Listener>();
  const auto response = answer(server.router, "GET", "/ws?clientId=" + client);
  const auto* body = std::get_if<http::WebSocketBody>(&response.body);
  if (body == nullptr) {
    ADD_FAILURE() << "no web socket";
  } else {
    body->open(out);
  }
  return out;
}

using Words = std::vector<std::string>;

TEST(ComfySocket, AWholeRun) {
  ComfyServer server;
  const auto me = connect(server, "me"), other = connect(server, "other");
  EXPECT_EQ(me->texts.at(0)["data"]["sid"], "me");
  EXPECT_EQ(me->texts.at(0)["data"]["status"]["exec_info"]["queue_remaining"], 0);
  me->heard();
  other->heard();
  const std::string id = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  EXPECT_EQ(me->heard(), Words{"status"});
  server.service.run(id);
  EXPECT_EQ(me->heard(), (Words{"execution_start", "execution_cached", "status"}));
  server.service.progress(id, {"text", 1, 4, 0.1, -1});
  EXPECT_EQ(me->heard(), (Words{"executing(5)", "progress(5)", "progress_state"}));
  server.service.progress(id, {"denoise", 1, 2, 0.4, 3});
  EXPECT_EQ(me->texts.at(1)["data"], (OrderedJson{{"value", 1}, {"max", 2}, {"prompt_id", id}, {"node", "7"}}));
  EXPECT_EQ(me->texts.at(2)["data"]["nodes"]["5"]["state"], "finished");
  EXPECT_EQ(me->texts.at(2)["data"]["nodes"]["7"]["state"], "running");
  EXPECT_EQ(me->heard(), (Words{"executing(7)", "progress(7)", "progress_state"}));
  server.service.progress(id, {"denoise", 2, 2, 0.8, 1});
  EXPECT_EQ(me->heard(), (Words{"progress(7)", "progress_state"}));
  server.service.preview(id, "\xff\xd8jpeg");
  ASSERT_EQ(me->binaries.size(), 1u);
  EXPECT_EQ(me->binaries[0], std::string("\0\0\0\1\0\0\0\1\xff\xd8jpeg", 14));
  server.service.progress(id, {"video", 1, 1, 0.9, 0});
  EXPECT_EQ(me->heard(), (Words{"executing(9)", "progress(9)", "progress_state"}));
  server.service.complete(id);
  ASSERT_GE(me->texts.size(), 2u);
  EXPECT_EQ(me->texts[1]["data"]["output"]["images"][0]["type"], "output");
  EXPECT_EQ(me->texts[1]["data"]["prompt_id"], id);
  EXPECT_EQ(me->heard(), (Words{"executing(12)", "executed(12)", "execution_success", "status", "executing(null)"}));
  // Others hear only of the queue.
  EXPECT_EQ(other->heard(), (Words{"status", "status", "status"}));
  EXPECT_TRUE(other->binaries.empty());
}

TEST(ComfySocket, FailuresAndInterruptions) {
  ComfyServer server;
  const auto me = connect(server, "me");
  const std::string a = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}}),
                    b = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}}),
                    c = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  server.service.run(a);
  server.service.progress(a, {"denoise", 1, 2, 0.4, 3});
  me->heard();
  server.service.fail(a, {ErrorCode::device, "the device is gone", "", "", "denoise", ""});
  EXPECT_EQ(me->texts.at(0)["data"]["exception_message"], "the device is gone");
  EXPECT_EQ(me->texts.at(0)["data"]["node_id"], "7");
  EXPECT_EQ(me->heard(), (Words{"execution_error", "status", "executing(null)"}));
  server.service.run(b);
  me->heard();
  server.call("POST", "/interrupt", {{"prompt_id", b}});
  server.service.stop_running(b);
  const Words heard = me->heard();
  ASSERT_GE(heard.size(), 3u);
  EXPECT_EQ(Words(heard.end() - 3, heard.end()), (Words{"execution_interrupted", "status", "executing(null)"}));
  server.call("POST", "/queue", {{"delete", {c}}});
  EXPECT_EQ(me->heard(), Words{"status"});
}

TEST(ComfySocket, AWorkerThatDiesBeginsAgain) {
  ComfyServer server;
  const auto me = connect(server, "me");
  const std::string id = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  server.service.run(id);
  server.service.progress(id, {"denoise", 1, 2, 0.4, 3});
  me->heard();
  server.service.requeue(id, {ErrorCode::device, "the worker died", "", "", "denoise", ""});
  EXPECT_EQ(me->heard(), Words{"status"});
  server.service.run(id);
  EXPECT_EQ(me->heard(), (Words{"execution_start", "execution_cached", "status"}));
}

TEST(ComfySocket, WhoComesBackIsToldTheState) {
  ComfyServer server;
  const auto first = connect(server, "me");
  const std::string id = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  server.service.run(id);
  server.service.progress(id, {"denoise", 1, 2, 0.4, 3});
  first->close();
  const auto again = connect(server, "me");
  EXPECT_EQ(again->texts.at(0)["data"]["status"]["exec_info"]["queue_remaining"], 1);
  EXPECT_EQ(again->texts.at(1)["data"]["prompt_id"], id);
  EXPECT_EQ(again->heard(), (Words{"status", "executing(7)", "progress_state"}));
  // A second connection under the same name takes the place of the first, which is closed.
  const auto third = connect(server, "me");
  EXPECT_TRUE(again->closed);
  EXPECT_FALSE(third->closed);
  third->heard();
  server.service.complete(id);
  EXPECT_EQ(third->heard().back(), "executing(null)");
}

// Jobs that were there before anybody listened count, and are followed.
TEST(ComfySocket, EarlierJobsCount) {
  ComfyServer server;
  const std::string a = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  server.queue(prompt_of("comfy_ksampler"));
  server.service.run(a);
  server.service.progress(a, {"denoise", 1, 2, 0.4, 3});
  const auto me = connect(server, "me");
  EXPECT_EQ(me->texts.at(0)["data"]["status"]["exec_info"]["queue_remaining"], 2);
  EXPECT_EQ(me->heard(), (Words{"status", "executing(7)", "progress_state"}));
  server.service.complete(a);
  EXPECT_EQ(me->heard(), (Words{"executing(12)", "executed(12)", "execution_success", "status", "executing(null)"}));
}

TEST(ComfySocket, PreviewsWithMetadataOnWish) {
  ComfyServer server;
  const auto me = connect(server, "me");
  me->heard();
  for (const char* noise : {"", "{", "[]", "{\"type\":5}", "{\"type\":\"feature_flags\"}", "{\"type\":\"feature_flags\",\"data\":[]}"})
    me->say(noise);
  me->heard();
  me->say(R"({"type": "feature_flags", "data": {"supports_preview_metadata": true}})");
  EXPECT_EQ(me->texts.at(0)["data"]["supports_preview_metadata"], true);
  EXPECT_EQ(me->heard(), Words{"feature_flags"});
  const std::string id = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}});
  server.service.run(id);
  server.service.progress(id, {"denoise", 1, 2, 0.4, 3});
  server.service.preview(id, "JPEG");
  ASSERT_EQ(me->binaries.size(), 1u);
  const std::string& bytes = me->binaries[0];
  EXPECT_EQ(bytes.substr(0, 4), std::string("\0\0\0\4", 4));
  const std::size_t size = static_cast<unsigned char>(bytes[6]) * 256u + static_cast<unsigned char>(bytes[7]);
  const auto metadata = OrderedJson::parse(bytes.substr(8, size));
  EXPECT_EQ(metadata["node_id"], "7");
  EXPECT_EQ(metadata["prompt_id"], id);
  EXPECT_EQ(bytes.substr(8 + size), "JPEG");
}

TEST(ComfySocket, ListenersMayOutliveTheRoutes) {
  std::shared_ptr<Listener> me;
  {
    ComfyServer server;
    me = connect(server, "me");
    EXPECT_EQ(server.service.subscriptions(), 1u);
  }
  me->say("{}");
  me->close();
}

}  // namespace
}  // namespace tritium::test
