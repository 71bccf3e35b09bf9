// Files of videos, and waiting for them.
#include "api/native_fixture.h"

#include "base/files.h"

#include <thread>

namespace tritium::test {
namespace {

using nlohmann::json;

class NativeContent : public Native {
 protected:
  static const http::FileBody& file_of(const http::HttpResponse& response) {
    static const http::FileBody kNone;
    EXPECT_TRUE(std::holds_alternative<http::FileBody>(response.body));
    return std::holds_alternative<http::FileBody>(response.body) ? std::get<http::FileBody>(response.body) : kNone;
  }
  std::string finished(const json& body) {
    const std::string id = accepted(body).id;
    service_.run(id);
    service_.complete(id);
    return id;
  }
};

TEST_F(NativeContent, NothingBeforeItIsComplete) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  for (const char* variant : {"", "?variant=video", "?variant=thumbnail", "?variant=0"}) {
    const auto response = get("/v1/videos/" + id + "/content" + variant);
    EXPECT_EQ(response.status, 404);
    EXPECT_NE(json_of(response)["detail"].get<std::string>().find("Generation is still in-progress"), std::string::npos);
  }
  service_.run(id);
  EXPECT_EQ(get("/v1/videos/" + id + "/content").status, 404);
  service_.fail(id, {ErrorCode::device, "the device was lost", "", "", "denoise", ""});
  const auto response = get("/v1/videos/" + id + "/content");
  EXPECT_EQ(response.status, 404);
  EXPECT_NE(json_of(response)["detail"].get<std::string>().find("device was lost"), std::string::npos);
}

TEST_F(NativeContent, Files) {
  const std::string id = finished({{"prompt", "x"}, {"n", 2}});
  const Job job = service_.jobs().back();
  const auto first = get("/v1/videos/" + id + "/content");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.content_type, "video/mp4");
  EXPECT_EQ(file_of(first).file, job.outputs[0].video);
  EXPECT_EQ(file_of(first).etag, job.outputs[0].sha256);
  EXPECT_EQ(file_of(get("/v1/videos/" + id + "/content?variant=1")).file, job.outputs[1].video);
  EXPECT_EQ(file_of(get("/v1/videos/" + id + "/content?index=1")).file, job.outputs[1].video);
  const auto picture = get("/v1/videos/" + id + "/content?variant=thumbnail&index=1");
  EXPECT_EQ(picture.content_type, "image/jpeg");
  EXPECT_EQ(file_of(picture).file, job.outputs[1].thumbnail);
  EXPECT_EQ(file_of(get("/v1/videos/" + id + "/content?download=1&variant=1")).download_name, id + "-1.mp4");
  const auto none = get("/v1/videos/" + id + "/content?variant=2");
  EXPECT_EQ(none.status, 404);
  EXPECT_NE(json_of(none)["detail"].get<std::string>().find("Video variant 2 not found"), std::string::npos);
  expect_refusal(get("/v1/videos/" + id + "/content?variant=spritesheet"), "variant", {"thumbnail"});
  expect_refusal(get("/v1/videos/" + id + "/content?variant=-1"), "variant", {"thumbnail"});
  expect_refusal(get("/v1/videos/" + id + "/content?index=x"), "index", {"x"});
  // Every address in the object leads to its file.
  const json object = video(id);
  for (const json& output : object["outputs"]) {
    const auto at = output["index"].get<std::size_t>();
    EXPECT_EQ(file_of(get(output["url"])).file, job.outputs[at].video);
    EXPECT_EQ(file_of(get(output["thumbnail_url"])).file, job.outputs[at].thumbnail);
  }
}

TEST_F(NativeContent, SyncGivesTheClip) {
  service_.complete_at_once(true);
  const auto response = form("/v1/videos/sync", {{"prompt", "x"}, {"seed", "1"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "video/mp4");
  EXPECT_EQ(*read_file(file_of(response).file), FakeJobService::kVideo);
  EXPECT_EQ(json::parse(header_of(response, "x-stage-durations"))["denoise"], 4.0);
  EXPECT_EQ(header_of(response, "x-inference-time-s"), "6.125");
  EXPECT_EQ(header_of(response, "x-peak-memory-mb"), "512.0");
  EXPECT_EQ(header_of(response, "x-video-id"), service_.jobs().back().id);
  expect_refusal(post("/v1/videos/sync", {{"prompt", "x"}, {"fps", 12}}), "fps", {"24"});
}

TEST_F(NativeContent, SyncWaits) {
  std::thread worker([this] {
    while (service_.jobs().empty()) std::this_thread::yield();
    service_.run(service_.jobs()[0].id);
    service_.fail(service_.jobs()[0].id, {ErrorCode::rejected, "the clip is black", "", "", "video", ""});
  });
  const auto failed = post("/v1/videos/sync", {{"prompt", "x"}});
  worker.join();
  expect_refusal(failed, "", {"black"}, 500);
  sync_seconds_ = 0.05;
  mount();
  const auto late = post("/v1/videos/sync", {{"prompt", "x"}});
  EXPECT_EQ(late.status, 202);
  EXPECT_EQ(json_of(late)["status"], "queued");
  EXPECT_EQ(header_of(late, "location"), "/v1/videos/" + json_of(late)["id"].get<std::string>());
  sync_waiting_ = 0;
  mount();
  const auto busy = post("/v1/videos/sync", {{"prompt", "x"}});
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(service_.jobs().size(), 2u);
}

}  // namespace
}  // namespace tritium::test
