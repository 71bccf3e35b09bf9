// Queries, deleting, files and links.
#include "minimax_server.h"
#include "server/minimax/links.h"

namespace tritium::test {
namespace {

TEST(MinimaxTasks, FromQueuedToSucceeded) {
  MinimaxServer server;
  const std::string id = server.create(text_to_video()), path = "/v2/query/video_generation/" + id;
  auto task = server.get(path)["task"];
  EXPECT_EQ(task["id"], id);
  EXPECT_EQ(task["status"], "queued");
  EXPECT_EQ(task["task_type"], "generation");
  EXPECT_EQ(task["modality"], "video");
  EXPECT_EQ(task["duration"], 5);
  EXPECT_EQ(task["ratio"], "16:9");
  EXPECT_FALSE(task.contains("content"));
  server.service.run(id);
  server.service.progress(id, {"denoise", 10, 20, 0.5, 3});
  task = server.get("/v2/query/video_generation?task_id=" + id)["task"];
  EXPECT_EQ(task["status"], "running");
  EXPECT_EQ(task["progress"], 50);
  server.service.complete(id);
  task = server.get(path)["task"];
  EXPECT_EQ(task["status"], "succeeded");
  EXPECT_EQ(task["resolution"], "768P");
  EXPECT_EQ(task["content"]["url"], "http://127.0.0.1:8000/v2/download/" + id + "/video.mp4");
  EXPECT_NEAR(task["usage"]["output_seconds"].get<double>(), 5.17, 0.01);
  EXPECT_GE(task["updated_at"], task["created_at"]);
  const auto video = server.call("GET", "/v2/download/" + id + "/video.mp4");
  ASSERT_EQ(video.status, 200);
  EXPECT_EQ(video.content_type, "video/mp4");
  EXPECT_FALSE(std::get<http::FileBody>(video.body).etag.empty());
}

TEST(MinimaxTasks, FailuresSayWhy) {
  MinimaxServer server;
  const std::string id = server.create(text_to_video());
  server.service.run(id);
  server.service.fail(id, {ErrorCode::rejected, "every frame is black", "", "check the weights", "video", ""});
  const auto task = server.get("/v2/query/video_generation/" + id)["task"];
  EXPECT_EQ(task["status"], "failed");
  EXPECT_EQ(task["error"]["code"], "1000");
  EXPECT_EQ(task["error"]["message"], "every frame is black (check the weights)");
  EXPECT_EQ(server.call("GET", "/v2/download/" + id + "/video.mp4").status, 404);
}

// A task that the server does not know is not done, it is not found.
TEST(MinimaxTasks, A18_UnknownTasksAreNotFound) {
  MinimaxServer server;
  const auto response = server.call("GET", "/v2/query/video_generation/nothing");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(document(response)["error"]["http_code"], "404");
  EXPECT_EQ(server.call("GET", "/v1/query/video_generation?task_id=nothing").status, 404);
  EXPECT_EQ(server.call("DELETE", "/v2/video_generation/nothing").status, 404);
  EXPECT_EQ(server.call("GET", "/v2/nothing").status, 404);
  EXPECT_EQ(document(server.call("PUT", "/v2/video_generation"))["type"], "error");
}

TEST(MinimaxTasks, ListsByPages) {
  MinimaxServer server;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(server.create(text_to_video()));
  auto page = server.get("/v2/query/video_generation?page_num=2&page_size=2");
  EXPECT_EQ(page["total"], 5);
  ASSERT_EQ(page["items"].size(), 2u);
  EXPECT_EQ(page["items"][0]["id"], ids[2]);  // newest first
  EXPECT_EQ(server.get("/v2/query/video_generation")["items"].size(), 5u);
  EXPECT_EQ(server.get("/v2/query/video_generation?page_num=9")["items"].size(), 0u);
  for (const char* wrong : {"page_num=0", "page_size=x", "page_size=501", "page_num=-1"})
    EXPECT_EQ(server.call("GET", std::string("/v2/query/video_generation?") + wrong).status, 400) << wrong;
}

TEST(MinimaxTasks, Deleting) {
  MinimaxServer server;
  const std::string a = server.create(text_to_video()), b = server.create(text_to_video());
  server.service.run(a);
  auto response = server.call("DELETE", "/v2/video_generation/" + a);
  EXPECT_EQ(response.status, 400);  // as the hosted service: a running task goes on
  EXPECT_NE(document(response)["error"]["message"].get<std::string>().find("is running"), std::string::npos);
  EXPECT_EQ(server.service.get(a, "")->state, JobState::running);
  auto gone = document(server.call("DELETE", "/v2/video_generation/" + b));
  EXPECT_EQ(gone["action"], "cancelled");
  EXPECT_EQ(gone["status"], "cancelled");
  EXPECT_EQ(server.get("/v2/query/video_generation/" + b)["task"]["status"], "cancelled");
  server.service.complete(a);
  gone = document(server.call("DELETE", "/v2/video_generation/" + a));
  EXPECT_EQ(gone["action"], "deleted");
  EXPECT_EQ(gone["status"], "succeeded");
  EXPECT_EQ(server.call("GET", "/v2/query/video_generation/" + a).status, 404);
}

TEST(MinimaxTasks, TheOlderInterface) {
  MinimaxServer server;
  const std::string id = document(server.call("POST", "/v1/video_generation", {{"model", "MiniMax-H3"}, {"prompt", "waves"}}))["task_id"];
  EXPECT_EQ(server.get("/v1/query/video_generation?task_id=" + id)["status"], "Queueing");
  server.service.run(id);
  EXPECT_EQ(server.get("/v1/query/video_generation?task_id=" + id)["status"], "Processing");
  EXPECT_EQ(server.call("GET", "/v1/files/retrieve?file_id=" + id).status, 404);
  server.service.complete(id);
  const auto done = server.get("/v1/query/video_generation?task_id=" + id);
  EXPECT_EQ(done["status"], "Success");
  EXPECT_EQ(done["file_id"], id);
  EXPECT_GT(done["video_width"], 0);
  const auto file = server.get("/v1/files/retrieve?file_id=" + id)["file"];
  EXPECT_EQ(file["download_url"], "http://127.0.0.1:8000/v2/download/" + id + "/video.mp4");
  EXPECT_GT(file["bytes"], 0);
  // Both interfaces see the same tasks.
  EXPECT_EQ(server.get("/v2/query/video_generation/" + id)["task"]["status"], "succeeded");
}

TEST(MinimaxTasks, UploadedFiles) {
  MinimaxServer server;
  const auto id = server.upload("../../a b.png", "content");
  auto files = server.get("/v1/files/list?purpose=video_generation")["files"];
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0]["file_id"], id);
  EXPECT_EQ(files[0]["bytes"], 7);
  EXPECT_EQ(server.get("/v1/files/list?purpose=other")["files"].size(), 0u);
  EXPECT_EQ(server.get("/v1/files/retrieve?file_id=" + std::to_string(id))["file"]["purpose"], "video_generation");
  EXPECT_EQ(server.call("POST", "/v1/files/delete", {{"file_id", id}}).status, 200);
  EXPECT_EQ(server.call("POST", "/v1/files/delete", {{"file_id", id}}).status, 404);
  EXPECT_EQ(server.call("POST", "/v1/files/upload").status, 400);
}

TEST(MinimaxTasks, FilesHaveALimitTogether) {
  minimax::Options options;
  options.max_file_bytes = 10;
  MinimaxServer server(options);
  server.upload("a.png", "12345678");
  auto request = request_for("POST", "/v1/files/upload");
  request.form = {form_file(server.spool.path(), "file", "b.png", "123")};
  EXPECT_EQ(answer(server.router, std::move(request)).status, 503);
}

TEST(MinimaxTasks, SignedLinks) {
  minimax::Options options;
  options.sign_links = true;
  options.public_url = "https://video.example/";
  MinimaxServer server(options);
  auto request = request_for("POST", "/v2/video_generation", text_to_video().dump());
  request.owner = "alice";
  const std::string id = document(answer(server.router, request))["task_id"];
  server.service.run(id);
  server.service.complete(id);
  auto query = request_for("GET", "/v2/query/video_generation/" + id);
  query.owner = "alice";
  const std::string url = document(answer(server.router, query))["task"]["content"]["url"];
  ASSERT_EQ(url.rfind("https://video.example/v2/download/" + id + "/video.mp4?owner=", 0), 0u) << url;
  const std::string target = url.substr(std::string("https://video.example").size());
  EXPECT_EQ(server.call("GET", target).status, 200);
  EXPECT_EQ(server.call("GET", target.substr(0, target.find('?'))).status, 403);
  std::string changed = target;
  changed.back() = changed.back() == '0' ? '1' : '0';
  EXPECT_EQ(server.call("GET", changed).status, 403);
  const std::size_t at = target.find("expires=") + 8;
  EXPECT_EQ(server.call("GET", target.substr(0, at) + "9" + target.substr(at)).status, 403);
  EXPECT_EQ(document(server.call("GET", changed))["error"]["type"], "authorized_error");
}

TEST(MinimaxTasks, LinksEnd) {
  TempFolder folder;
  minimax::Options options;
  options.sign_links = true;
  options.link_seconds = 10;
  const minimax::Links links(folder.path(), options);
  const std::string url = links.address(links.base_of(request_for("GET", "/")), "task", "bob", 1000);
  const auto request = request_for("GET", url.substr(std::string("http://localhost").size()));
  EXPECT_EQ(*links.owner_of(request, "task", 1010), "bob");
  EXPECT_FALSE(links.owner_of(request, "task", 1011).ok());
  EXPECT_FALSE(links.owner_of(request, "other", 1005).ok());
  // A server that starts again knows its links.
  EXPECT_TRUE(minimax::Links(folder.path(), options).owner_of(request, "task", 1005).ok());
}

// RFC 4231, cases 2 and 6.
TEST(MinimaxTasks, Hmac) {
  EXPECT_EQ(minimax::hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(minimax::hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace tritium::test
