// Events of jobs, as clients of server-sent events read them.
#include "api/native_fixture.h"

namespace tritium::test {
namespace {

using nlohmann::json;

struct SeenEvent {
  std::string id, name;
  json data;
};

std::vector<SeenEvent> events_in(const std::string& text) {
  std::vector<SeenEvent> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an event without its end: " << text.substr(at);
      break;
    }
    SeenEvent event;
    std::string block = text.substr(at, end - at) + "\n";
    for (std::size_t line = 0; line < block.size();) {
      const std::size_t stop = block.find('\n', line);
      const std::string one = block.substr(line, stop - line);
      if (one.starts_with("id: ")) event.id = one.substr(4);
      if (one.starts_with("event: ")) event.name = one.substr(7);
      if (one.starts_with("data: ")) event.data = json::parse(one.substr(6));
      line = stop + 1;
    }
    if (!event.name.empty()) out.push_back(std::move(event));
    at = end + 2;
  }
  return out;
}

class NativeEvents : public Native {
 protected:
  std::shared_ptr<FakeStream> follow(const std::string& path, const std::string& last = {}) {
    http::HttpRequest request;
    request.method = "GET";
    request.path = path;
    if (!last.empty()) request.headers = {{"last-event-id", last}};
    const auto response = call(request);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.content_type, "text/event-stream");
    auto stream = std::make_shared<FakeStream>();
    std::get<http::StreamBody>(response.body).open(stream);
    return stream;
  }
};

TEST_F(NativeEvents, OneVideoToItsEnd) {
  const std::string id = accepted({{"prompt", "x"}}).id, other = accepted({{"prompt", "y"}}).id;
  const auto stream = follow("/v1/videos/" + id + "/events");
  service_.run(id);
  service_.progress(id, {"denoise", 1, 50, 0.1, 9});
  service_.preview(id, "\xff\xd8 picture");
  service_.run(other);
  service_.complete(id);
  EXPECT_TRUE(stream->closed());
  const auto events = events_in(stream->text());
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].name, "state");  // as it was when the client came
  EXPECT_EQ(events[0].data["status"], "queued");
  EXPECT_EQ(events[1].data["status"], "in_progress");
  EXPECT_EQ(events[2].name, "progress");
  EXPECT_EQ(events[2].data["stage"], "denoise");
  EXPECT_EQ(events[2].data["eta_seconds"], 9.0);
  EXPECT_EQ(events[3].name, "preview");
  EXPECT_EQ(events[3].data["data"], "/9ggcGljdHVyZQ==");
  EXPECT_EQ(events[4].data["status"], "completed");
  EXPECT_TRUE(events[4].id.ends_with("-end"));
  for (const auto& event : events) EXPECT_EQ(event.data["id"], id);
  // A browser that comes back is told that there is nothing more.
  http::HttpRequest again;
  again.method = "GET";
  again.path = "/v1/videos/" + id + "/events";
  again.headers = {{"last-event-id", events[4].id}};
  EXPECT_EQ(call(again).status, 204);
  // One that comes late sees how it ended.
  const auto late = follow("/v1/videos/" + id + "/events");
  EXPECT_EQ(events_in(late->text()).back().data["status"], "completed");
  EXPECT_TRUE(late->closed());
  EXPECT_EQ(get("/v1/videos/nobody/events").status, 404);
}

TEST_F(NativeEvents, WhatWasMissedIsSentAgain) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  const auto first = follow("/v1/events");
  service_.run(id);
  service_.progress(id, {"load", 1, 50, 0.1, 9});
  first->close();
  service_.progress(id, {"text", 2, 50, 0.2, 8});
  service_.preview(id, "picture");
  service_.progress(id, {"denoise", 3, 50, 0.3, 7});
  const std::string last = events_in(first->text()).back().id;
  const auto events = events_in(follow("/v1/events", last)->text());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].data["step"], 2);
  EXPECT_EQ(events[1].data["step"], 3);
  // Too long ago: how things stand.
  for (int i = 4; i < 20; ++i) service_.progress(id, {i % 2 == 0 ? "video" : "audio", i, 50, 0.3, 7});
  const auto late = events_in(follow("/v1/events", last)->text());
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].name, "state");
  EXPECT_EQ(late[0].data["step"], 19);
  EXPECT_EQ(events_in(follow("/v1/events", "what")->text()).size(), 1u);
}

// A step of a small model takes a hundredth of a second, and nobody reads so fast.
TEST_F(NativeEvents, ProgressIsToldAFewTimesASecond) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  const auto stream = follow("/v1/videos/" + id + "/events");
  service_.run(id);
  for (int i = 1; i <= 1000; ++i) service_.progress(id, {"denoise", i, 1000, i / 1000.0, 1});
  service_.progress(id, {"video", 1, 5, 0.9, 1});
  service_.complete(id);
  const auto events = events_in(stream->text());
  EXPECT_LT(events.size(), 100u);
  const auto video_stage = std::find_if(events.begin(), events.end(), [](const auto& e) { return e.data["stage"] == "video"; });
  EXPECT_NE(video_stage, events.end());
  EXPECT_EQ(events.back().data["status"], "completed");
}

TEST_F(NativeEvents, AllVideosBeginWithTheUnfinished) {
  const std::string done = accepted({{"prompt", "1"}}).id, running = accepted({{"prompt", "2"}}).id,
                    waiting = accepted({{"prompt", "3"}}).id;
  service_.run(done);
  service_.complete(done);
  service_.run(running);
  const auto stream = follow("/v1/events");
  send("DELETE", "/v1/videos/" + waiting);
  const auto events = events_in(stream->text());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].data["id"], running);
  EXPECT_EQ(events[1].data["id"], waiting);
  EXPECT_EQ(events[2].data["state"], "cancelled");
  EXPECT_EQ(events[3].name, "removed");
  EXPECT_FALSE(stream->closed());
}

TEST_F(NativeEvents, ManyReadersOneSubscription) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  std::vector<std::shared_ptr<FakeStream>> streams;
  for (int i = 0; i < 50; ++i) streams.push_back(follow(i % 2 == 0 ? "/v1/events" : "/v1/videos/" + id + "/events"));
  EXPECT_EQ(service_.subscriptions(), 1u);
  streams[0]->close();
  service_.run(id);
  for (std::size_t i = 1; i < streams.size(); ++i) EXPECT_EQ(events_in(streams[i]->text()).back().data["status"], "in_progress");
  router_ = http::Router();  // the server goes
  for (const auto& stream : streams) EXPECT_TRUE(stream->closed());
  EXPECT_EQ(service_.subscriptions(), 0u);
}

TEST_F(NativeEvents, ReadersComeAndGoWhileJobsRun) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  service_.run(id);
  std::atomic<bool> over = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      while (!over) {
        const auto stream = follow("/v1/events");
        EXPECT_FALSE(events_in(stream->text()).empty());
        stream->close();
      }
    });
  for (int i = 1; i <= 200; ++i) service_.progress(id, {"denoise", i, 200, i / 200.0, 1});
  over = true;
  for (std::thread& reader : readers) reader.join();
  service_.complete(id);
}

}  // namespace
}  // namespace tritium::test
