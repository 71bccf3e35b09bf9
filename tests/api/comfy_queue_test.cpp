// Queue, history, interrupting, /api/jobs.
#include "comfy_server.h"

namespace tritium::test {
namespace {

TEST(ComfyQueue, StatesAreTruthful) {
  ComfyServer server;
  const std::string a = server.queue(prompt_of("comfy_ksampler"), {{"client_id", "me"}}), b = server.queue(prompt_of("comfy_ksampler"));
  server.service.run(a);
  const auto queue = server.get("/queue");
  ASSERT_EQ(queue["queue_running"].size(), 1u);
  ASSERT_EQ(queue["queue_pending"].size(), 1u);
  const auto item = queue["queue_running"][0];
  ASSERT_EQ(item.size(), 5u);
  EXPECT_EQ(item[0], 1);
  EXPECT_EQ(item[1], a);
  EXPECT_EQ(item[2], prompt_of("comfy_ksampler"));
  EXPECT_EQ(item[3]["client_id"], "me");
  EXPECT_EQ(item[4], OrderedJson::array({"12"}));
  EXPECT_EQ(queue["queue_pending"][0][1], b);
  EXPECT_EQ(server.get("/history"), OrderedJson::object());
  EXPECT_EQ(server.get("/history/" + a), OrderedJson::object());
}

TEST(ComfyQueue, A4_DeleteTakesOutWhatWaits) {
  ComfyServer server;
  const std::string a = server.queue(prompt_of("comfy_ksampler")), b = server.queue(prompt_of("comfy_ksampler")),
                    c = server.queue(prompt_of("comfy_ksampler"));
  server.service.run(a);
  EXPECT_EQ(server.call("POST", "/queue", {{"delete", {a, b, "nothing"}}}).status, 200);
  EXPECT_EQ(server.service.get(b, "")->state, JobState::cancelled);
  EXPECT_FALSE(server.service.get(a, "")->cancel_requested);  // it runs: /interrupt stops it
  EXPECT_EQ(server.get("/queue")["queue_pending"].size(), 1u);
  EXPECT_EQ(server.get("/history"), OrderedJson::object());  // what never ran is in no history
  EXPECT_EQ(server.call("POST", "/queue", {{"clear", true}}).status, 200);
  EXPECT_EQ(server.service.get(c, "")->state, JobState::cancelled);
  EXPECT_EQ(server.get("/queue")["queue_pending"].size(), 0u);
}

TEST(ComfyQueue, A9_InterruptStopsARunningJob) {
  ComfyServer server;
  const std::string a = server.queue(prompt_of("comfy_ksampler")), b = server.queue(prompt_of("comfy_ksampler"));
  server.service.run(a);
  server.call("POST", "/interrupt", {{"prompt_id", b}});
  EXPECT_EQ(server.service.get(b, "")->state, JobState::queued);  // it does not run
  EXPECT_FALSE(server.service.get(a, "")->cancel_requested);
  EXPECT_EQ(server.call("POST", "/interrupt").status, 200);
  EXPECT_TRUE(server.service.get(a, "")->cancel_requested);
  server.service.progress(a, {"denoise", 1, 2, 0.5, 1});
  server.service.stop_running(a);
  const auto entry = server.get("/history/" + a)[a];
  EXPECT_EQ(entry["status"]["status_str"], "error");
  EXPECT_EQ(entry["status"]["completed"], false);
  EXPECT_EQ(entry["status"]["messages"].back()[0], "execution_interrupted");
  EXPECT_EQ(entry["status"]["messages"].back()[1]["node_type"], "KSampler");
  EXPECT_EQ(entry["outputs"], OrderedJson::object());
}

TEST(ComfyQueue, A22_OutputsWhereClientsLook) {
  ComfyServer server;
  Json prompt = prompt_of("comfy_ksampler");
  prompt["13"] = {{"class_type", "VHS_VideoCombine"}, {"inputs", {{"images", {"9", 0}}, {"audio", {"10", 0}}, {"frame_rate", 24}}}};
  const std::string id = server.queue(prompt);
  server.service.run(id);
  server.service.complete(id);
  const auto entry = server.get("/history/" + id)[id];
  EXPECT_EQ(entry["status"]["completed"], true);
  EXPECT_EQ(entry["status"]["messages"].back()[0], "execution_success");
  const auto saved = entry["outputs"]["12"], combined = entry["outputs"]["13"];
  EXPECT_EQ(saved["animated"], OrderedJson::array({true}));
  EXPECT_EQ(saved["images"], saved["videos"]);
  EXPECT_EQ(saved["images"][0]["type"], "output");
  EXPECT_EQ(combined["gifs"][0]["format"], "video/h264-mp4");
  EXPECT_EQ(combined["gifs"][0]["type"], "output");
  EXPECT_NE(combined["gifs"][0]["filename"], saved["images"][0]["filename"]);
  EXPECT_EQ(entry["prompt"][1], id);
  EXPECT_EQ(entry["meta"]["12"]["real_node_id"], "12");
}

TEST(ComfyQueue, FailuresSayWhereAndWhy) {
  ComfyServer server;
  const std::string id = server.queue(prompt_of("comfy_ksampler"));
  server.service.run(id);
  server.service.fail(id, {ErrorCode::rejected, "every frame is black", "", "check the weights", "video", "last words"});
  const auto end = server.get("/history/" + id)[id]["status"]["messages"].back();
  EXPECT_EQ(end[0], "execution_error");
  EXPECT_EQ(end[1]["node_id"], "9");
  EXPECT_EQ(end[1]["node_type"], "VAEDecode");
  EXPECT_EQ(end[1]["exception_type"], "OutputRejected");
  EXPECT_EQ(end[1]["exception_message"], "every frame is black (check the weights)");
  EXPECT_EQ(end[1]["traceback"][0], "last words");
  EXPECT_FALSE(end[1]["executed"].empty());
}

TEST(ComfyQueue, HistoryByPages) {
  ComfyServer server;
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    ids.push_back(server.queue(prompt_of("comfy_ksampler")));
    server.service.run(ids.back());
    server.service.complete(ids.back());
  }
  const auto keys = [](const OrderedJson& document) {
    std::vector<std::string> out;
    for (const auto& [key, value] : document.items()) out.push_back(key);
    return out;
  };
  EXPECT_EQ(keys(server.get("/history")), ids);
  EXPECT_EQ(keys(server.get("/history?max_items=2")), (std::vector<std::string>{ids[3], ids[4]}));
  EXPECT_EQ(keys(server.get("/history?max_items=2&offset=1")), (std::vector<std::string>{ids[1], ids[2]}));
  EXPECT_EQ(keys(server.get("/history?max_items=9&offset=4")), (std::vector<std::string>{ids[4]}));
  EXPECT_EQ(server.call("GET", "/history?max_items=x").status, 400);
}

// In ComfyUI the files stay when the history goes; here too.
TEST(ComfyQueue, ForgettingKeepsFiles) {
  ComfyServer server;
  const std::string a = server.queue(prompt_of("comfy_ksampler")), b = server.queue(prompt_of("comfy_ksampler"));
  for (const std::string& id : {a, b}) {
    server.service.run(id);
    server.service.complete(id);
  }
  const std::string file = server.get("/history/" + a)[a]["outputs"]["12"]["images"][0]["filename"];
  EXPECT_EQ(server.call("POST", "/history", {{"delete", {a}}}).status, 200);
  EXPECT_EQ(server.get("/history/" + a), OrderedJson::object());
  EXPECT_EQ(server.get("/history").size(), 1u);
  EXPECT_EQ(server.call("GET", "/view?filename=" + file).status, 200);
  server.call("POST", "/history", {{"clear", true}});
  EXPECT_EQ(server.get("/history").size(), 0u);
  EXPECT_EQ(server.get("/api/jobs")["jobs"].size(), 0u);
  // A server that starts again knows it still.
  http::Router again;
  comfy::add_routes(again, server.service);
  EXPECT_EQ(document(answer(again, "GET", "/history")).size(), 0u);
}

TEST(ComfyQueue, JobsInOneList) {
  ComfyServer server;
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i)
    ids.push_back(
        server.queue(prompt_of("comfy_ksampler"), {{"extra_data", {{"extra_pnginfo", {{"workflow", {{"id", i < 2 ? "w" : "v"}}}}}}}}));
  server.service.run(ids[0]);
  server.service.complete(ids[0]);
  server.service.run(ids[1]);
  auto jobs = server.get("/api/jobs");
  ASSERT_EQ(jobs["jobs"].size(), 4u);
  EXPECT_EQ(jobs["jobs"][0]["id"], ids[3]);
  EXPECT_EQ(jobs["pagination"]["total"], 4);
  EXPECT_EQ(jobs["pagination"]["has_more"], false);
  jobs = server.get("/api/jobs?status=pending,in_progress&sort_order=asc&limit=2");
  ASSERT_EQ(jobs["jobs"].size(), 2u);
  EXPECT_EQ(jobs["jobs"][0]["id"], ids[1]);
  EXPECT_EQ(jobs["jobs"][0]["status"], "in_progress");
  EXPECT_EQ(jobs["pagination"]["has_more"], true);
  EXPECT_EQ(server.get("/api/jobs?workflow_id=v")["jobs"].size(), 2u);
  for (const char* wrong : {"status=done", "sort_by=x", "sort_order=up", "limit=0", "limit=x"})
    EXPECT_EQ(server.call("GET", std::string("/api/jobs?") + wrong).status, 400) << wrong;
  const auto job = server.get("/api/jobs/" + ids[0]);
  EXPECT_EQ(job["status"], "completed");
  EXPECT_EQ(job["outputs_count"], 1);
  EXPECT_EQ(job["preview_output"]["mediaType"], "video");
  EXPECT_TRUE(job["outputs"].contains("12"));
  EXPECT_EQ(server.call("GET", "/api/jobs/nothing").status, 404);
  EXPECT_EQ(document(server.call("POST", "/api/jobs/" + ids[2] + "/cancel"))["cancelled"], true);
  EXPECT_EQ(document(server.call("POST", "/api/jobs/" + ids[2] + "/cancel"))["cancelled"], false);
  EXPECT_EQ(document(server.call("POST", "/api/jobs/cancel", {{"job_ids", {ids[0], ids[3]}}}))["cancelled"], true);
  EXPECT_EQ(server.call("POST", "/api/jobs/cancel", {{"job_ids", {"x"}}}).status, 400);
  EXPECT_EQ(server.call("POST", "/api/jobs/cancel", {{"job_ids", "x"}}).status, 400);
}

TEST(ComfyQueue, OwnersDoNotSeeEachOther) {
  ComfyServer server;
  auto request = request_for("POST", "/prompt", OrderedJson{{"prompt", prompt_of("comfy_ksampler")}}.dump());
  request.owner = "alice";
  const std::string id = document(answer(server.router, request))["prompt_id"];
  server.service.run(id);
  server.service.complete(id);
  EXPECT_EQ(server.get("/history").size(), 0u);
  auto own = request_for("GET", "/history/" + id);
  own.owner = "alice";
  const auto entry = document(answer(server.router, own));
  ASSERT_TRUE(entry.contains(id));
  const std::string file = entry[id]["outputs"]["12"]["images"][0]["filename"];
  EXPECT_EQ(server.call("GET", "/view?filename=" + file).status, 404);
}

TEST(ComfyQueue, MemoryIsFreedOnWish) {
  ComfyServer server;
  server.call("POST", "/free", {{"unload_models", false}});
  EXPECT_EQ(server.service.freed(), 0);
  EXPECT_EQ(server.call("POST", "/free", {{"unload_models", true}, {"free_memory", true}}).status, 200);
  EXPECT_EQ(server.service.freed(), 1);
  const auto stats = server.get("/system_stats");
  EXPECT_GT(stats["system"]["ram_total"], 0);
  EXPECT_EQ(stats["devices"][0]["type"], "cpu");
}

}  // namespace
}  // namespace tritium::test
