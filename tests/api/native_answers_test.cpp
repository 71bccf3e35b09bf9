// The video object, lists, and what is done with a video.
#include "api/native_fixture.h"

namespace tritium::test {
namespace {

using nlohmann::json;

class NativeAnswers : public Native {};

TEST_F(NativeAnswers, AVideoFromBeginningToEnd) {
  const std::string id = accepted({{"prompt", "x"}, {"seed", 3}}).id;
  json v = video(id);
  EXPECT_EQ(v["status"], "queued");
  EXPECT_EQ(v["queue_position"], 0);
  EXPECT_TRUE(v["url"].is_null());
  service_.run(id);
  service_.progress(id, {"denoise", 12, 50, 0.416, 31.5});
  v = video(id);
  EXPECT_EQ(v["status"], "in_progress");
  EXPECT_EQ(v["state"], "running");
  EXPECT_EQ(v["progress"], 41);
  EXPECT_EQ(v["stage"], "denoise");
  EXPECT_EQ(v["step"], 12);
  EXPECT_EQ(v["of"], 50);
  EXPECT_EQ(v["eta_seconds"], 31.5);
  EXPECT_TRUE(v["queue_position"].is_null());
  service_.progress(id, {"write", 1, 1, 1, 0});
  EXPECT_EQ(video(id)["progress"], 99);  // 100 is for those that are complete
  service_.complete(id);
  v = video(id);
  EXPECT_EQ(v["status"], "completed");
  EXPECT_EQ(v["progress"], 100);
  EXPECT_EQ(v["url"], "/v1/videos/" + id + "/content");
  EXPECT_GT(v["completed_at"].get<int>(), v["created_at"].get<int>());
  EXPECT_GT(v["expires_at"].get<int>(), v["completed_at"].get<int>());
  EXPECT_EQ(v["timings"]["denoise"], 4.0);
  EXPECT_EQ(v["inference_time_s"], 6.125);
  EXPECT_EQ(v["peak_memory_mb"], 512.0);
  EXPECT_EQ(v["outputs"].size(), 1u);
  EXPECT_EQ(v["seed"], 3);
}

TEST_F(NativeAnswers, FailuresSayWhy) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  service_.run(id);
  service_.fail(id, {ErrorCode::rejected, "the clip is black", "", "use another seed", "video", ""});
  const json v = video(id);
  EXPECT_EQ(v["status"], "failed");
  EXPECT_EQ(v["error"]["code"], "output_rejected");
  EXPECT_NE(v["error"]["message"].get<std::string>().find("another seed"), std::string::npos);
  EXPECT_EQ(v["error"]["stage"], "video");
  EXPECT_TRUE(v["completed_at"].is_null());
  EXPECT_FALSE(v["finished_at"].is_null());
}

TEST_F(NativeAnswers, A4_StatesAreTrueAndCancellingStops) {
  const std::string first = accepted({{"prompt", "1"}}).id, second = accepted({{"prompt", "2"}}).id, third = accepted({{"prompt", "3"}}).id;
  service_.run(first);
  EXPECT_EQ(video(first)["status"], "in_progress");
  EXPECT_EQ(video(second)["queue_position"], 0);
  EXPECT_EQ(video(third)["queue_position"], 1);
  // One that waits is cancelled at once, and says so in the words that clients of OpenAI's API know.
  json v = json_of(send("POST", "/v1/videos/" + second + "/cancel"));
  EXPECT_EQ(v["status"], "failed");
  EXPECT_EQ(v["state"], "cancelled");
  EXPECT_EQ(v["error"]["code"], "cancelled");
  EXPECT_EQ(video(third)["queue_position"], 0);
  v = json_of(send("POST", "/v1/videos/" + first + "/cancel"));
  EXPECT_EQ(v["cancel_requested"], true);
  service_.stop_running(first);
  EXPECT_EQ(video(first)["state"], "cancelled");
  // What is over stays as it is.
  EXPECT_EQ(json_of(send("POST", "/v1/videos/" + first + "/cancel"))["state"], "cancelled");
  EXPECT_EQ(send("POST", "/v1/videos/nobody/cancel").status, 404);
}

TEST_F(NativeAnswers, A8_DeletingStopsAndRemoves) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  service_.run(id);
  const json gone = json_of(send("DELETE", "/v1/videos/" + id));
  EXPECT_EQ(gone["id"], id);
  EXPECT_EQ(gone["object"], "video.deleted");
  EXPECT_EQ(gone["deleted"], true);
  EXPECT_EQ(gone["status"], "deleted");
  EXPECT_TRUE(service_.jobs().empty());
  const auto again = get("/v1/videos/" + id);
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(json_of(again)["detail"].get<std::string>().find("Video not found"), 0u);
  EXPECT_EQ(send("DELETE", "/v1/videos/" + id).status, 404);
}

TEST_F(NativeAnswers, ListsInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(accepted({{"prompt", std::to_string(i)}}).id);
  json page = json_of(get("/v1/videos?limit=2"));
  EXPECT_EQ(page["object"], "list");
  EXPECT_EQ(page["data"].size(), 2u);
  EXPECT_EQ(page["first_id"], ids[4]);
  EXPECT_EQ(page["last_id"], ids[3]);
  EXPECT_EQ(page["has_more"], true);
  page = json_of(get("/v1/videos?limit=100&after=" + ids[3]));
  EXPECT_EQ(page["data"].size(), 3u);
  EXPECT_EQ(page["has_more"], false);
  page = json_of(get("/v1/videos?order=asc&limit=1"));
  EXPECT_EQ(page["first_id"], ids[0]);
  service_.run(ids[1]);
  EXPECT_EQ(json_of(get("/v1/videos?status=in_progress"))["data"].size(), 1u);
  EXPECT_EQ(json_of(get("/v1/videos?status=completed"))["first_id"], nullptr);
  for (const char* limit : {"0", "101", "x", "-1", "1x", ""})
    expect_refusal(get(std::string("/v1/videos?limit=") + limit), "limit", {"1 to 100"});
  expect_refusal(get("/v1/videos?order=up"), "order", {"asc"});
  expect_refusal(get("/v1/videos?status=done"), "status", {"in_progress"});
  expect_refusal(get("/v1/videos?after=nobody"), "after", {"nobody"});
}

// Texts of finished videos are kept; none is shown for another video, nor to another owner.
TEST_F(NativeAnswers, FinishedVideosStayAsTheyEnded) {
  const std::string first = accepted({{"prompt", "one"}, {"id", "chosen"}}).id, second = accepted({{"prompt", "two"}}).id;
  for (const std::string& id : {first, second}) {
    EXPECT_EQ(video(id)["status"], "queued");
    service_.run(id);
    EXPECT_EQ(video(id)["status"], "in_progress");
    service_.complete(id);
  }
  const json list = json_of(get("/v1/videos?limit=2"))["data"];
  EXPECT_EQ(list[0], video(second));
  EXPECT_EQ(list[1], video(first));
  EXPECT_EQ(list, json_of(get("/v1/videos?limit=2"))["data"]);
  EXPECT_EQ(list[1]["prompt"], "one");
  EXPECT_EQ(get("/v1/videos/" + first, "somebody").status, 404);
  EXPECT_EQ(send("DELETE", "/v1/videos/" + first).status, 200);
  EXPECT_EQ(get("/v1/videos/" + first).status, 404);
  const std::string again = accepted({{"prompt", "three"}, {"id", "chosen"}}).id;
  EXPECT_EQ(again, first);
  service_.run(again);
  service_.complete(again);
  EXPECT_EQ(video(again)["prompt"], "three");
}

TEST_F(NativeAnswers, OwnersSeeOnlyTheirOwn) {
  const std::string id = accepted({{"prompt", "x"}}).id;
  EXPECT_EQ(get("/v1/videos/" + id, "somebody").status, 404);
  EXPECT_EQ(get("/v1/videos/" + id + "/content", "somebody").status, 404);
  EXPECT_EQ(get("/v1/videos/" + id + "/events", "somebody").status, 404);
  EXPECT_EQ(json_of(get("/v1/videos", "somebody"))["data"].size(), 0u);
}

TEST_F(NativeAnswers, A19_TheSameBodyTwiceIsTwoVideos) {
  const json body{{"prompt", "x"}, {"seed", 1}};
  EXPECT_NE(accepted(body).id, accepted(body).id);
}

TEST_F(NativeAnswers, A20_TheSameKeyIsTheSameVideo) {
  const std::string body = json{{"prompt", "x"}}.dump();
  const auto first = send("POST", "/v1/videos", body, {{"idempotency-key", "k1"}});
  const auto again = send("POST", "/v1/videos", body, {{"idempotency-key", "k1"}});
  EXPECT_EQ(json_of(first)["id"], json_of(again)["id"]);
  EXPECT_EQ(header_of(first, "idempotent-replayed"), "");
  EXPECT_EQ(header_of(again, "idempotent-replayed"), "true");
  expect_refusal(send("POST", "/v1/videos", json{{"prompt", "y"}}.dump(), {{"idempotency-key", "k1"}}), "idempotency_key", {}, 409);
  expect_refusal(send("POST", "/v1/videos", body, {{"idempotency-key", std::string(256, 'k')}}), "Idempotency-Key", {"255"});
  EXPECT_EQ(accepted({{"prompt", "x"}, {"id", "mine-1"}}).id, "mine-1");
  expect_refusal(post("/v1/videos", {{"prompt", "x"}, {"id", "mine-1"}}), "id", {}, 409);
}

TEST_F(NativeAnswers, WhatTheServiceRefuses) {
  service_.refuse_next({ErrorCode::does_not_fit, "needs 90 GiB, 24 GiB are there", "", "choose a smaller size"});
  refused({{"prompt", "x"}}, "", {"90 GiB", "24 GiB"}, 422);
  service_.refuse_next({ErrorCode::busy, "1000 jobs wait already", "", ""});
  const auto busy = post("/v1/videos", {{"prompt", "x"}});
  EXPECT_TRUE(busy.status == 429 || busy.status == 503);
  EXPECT_NE(header_of(busy, "retry-after"), "");
  service_.refuse_next({ErrorCode::failure, "the disk fails", "", ""});
  refused({{"prompt", "x"}}, "", {"disk"}, 500);
}

TEST_F(NativeAnswers, PlansWithoutStarting) {
  const auto response = post("/v1/videos/plan", {{"prompt", "x"}, {"seconds", 4}, {"quality", "high"}, {"what", 1}});
  ASSERT_EQ(response.status, 200);
  const json plan = json_of(response);
  EXPECT_EQ(plan["frames"], 107);
  EXPECT_EQ(plan["size"], "1344x768");
  EXPECT_GT(plan["expected_seconds"], 0);
  EXPECT_GT(plan["peak_bytes"], 0);
  EXPECT_EQ(plan["adjustments"].size(), 2u) << plan["adjustments"];
  EXPECT_EQ(plan["warnings"].size(), 1u);
  EXPECT_TRUE(service_.jobs().empty());
  expect_refusal(post("/v1/videos/plan", {{"prompt", "x"}, {"fps", 30}}), "fps", {"24"});
}

TEST_F(NativeAnswers, RetryAndRemix) {
  const Job job = accepted({{"prompt", "x"}, {"seconds", "5"}, {"num_inference_steps", 9}, {"n", 2}, {"user", "u"}});
  const json again = json_of(send("POST", "/v1/videos/" + job.id + "/retry"));
  EXPECT_NE(again["id"], job.id);
  const Job second = service_.jobs().back();
  EXPECT_EQ(second.spec.request.steps, 9);
  EXPECT_EQ(second.spec.outputs, 2);
  EXPECT_FALSE(second.spec.request.seed.has_value());
  const json other = json_of(post("/v1/videos/" + job.id + "/remix", {{"prompt", "another"}}));
  EXPECT_EQ(other["remixed_from_video_id"], job.id);
  EXPECT_EQ(other["prompt"], "another");
  EXPECT_EQ(other["seed"], job.plan.seed);
  EXPECT_EQ(other["seconds"], "5");
  expect_refusal(post("/v1/videos/" + job.id + "/remix", json::object()), "prompt", {"missing"});
  EXPECT_EQ(send("POST", "/v1/videos/nobody/retry").status, 404);
  EXPECT_EQ(post("/v1/videos/nobody/remix", {{"prompt", "x"}}).status, 404);
}

TEST_F(NativeAnswers, SettingsCanBePostedAgain) {
  const Job job = accepted({{"prompt", "x"},
                            {"size", "96x160"},
                            {"num_frames", 39},
                            {"num_inference_steps", 9},
                            {"flow_shift", 6},
                            {"audio_flow_shift", 2},
                            {"noise", "sglang"},
                            {"seed", 5},
                            {"n", 3},
                            {"priority", 2},
                            {"force", true}});
  const json settings = video(job.id)["request"];
  const Job again = accepted(settings);
  EXPECT_EQ(video(again.id)["request"], settings);
  EXPECT_TRUE(video(again.id)["warnings"].empty()) << video(again.id)["warnings"];
  EXPECT_EQ(again.plan.width, 96);
  EXPECT_EQ(again.plan.frames, 39);
  EXPECT_EQ(again.spec.request.video_shift, 6);
  EXPECT_EQ(again.spec.outputs, 3);
}

TEST_F(NativeAnswers, ModelsAndLoras) {
  const json models = json_of(get("/v1/models"));
  EXPECT_EQ(models["data"][0]["id"], "MiniMax-H3");
  EXPECT_EQ(models["data"][0]["defaults"]["width"], 1344);
  EXPECT_EQ(json_of(get("/v1/models/MiniMax-H3"))["object"], "model");
  expect_refusal(get("/v1/models/gpt/5"), "model", {"gpt/5", "MiniMax-H3"}, 404);
  EXPECT_EQ(json_of(get("/v1/loras"))["data"].size(), 0u);
}

TEST_F(NativeAnswers, WhatHasNoCounterpartSaysSo) {
  for (const char* path : {"/v1/set_lora", "/v1/videos/edits", "/v1/videos/extensions", "/v1/videos/characters"}) {
    const auto response = post(path, json::object());
    EXPECT_EQ(response.status, 400) << path;
    EXPECT_NE(json_of(response)["error"]["message"].get<std::string>().find('('), std::string::npos) << path;
  }
  EXPECT_EQ(get("/v1/nothing").status, 404);
  EXPECT_EQ(send("PUT", "/v1/videos").status, 405);
  EXPECT_TRUE(json_of(get("/v1/nothing")).contains("error"));
}

class NativeLoras : public Native {
 protected:
  NativeLoras() : service_with_loras_(options()) {
    router_ = http::Router();
    server::native::add_routes(router_, service_with_loras_, {folder_.path() / "spool", {}, 5, 2, 8});
  }
  ServiceOptions options() {
    std::filesystem::create_directories(folder_.path() / "model/loras");
    folder_.write("model/loras/turbo.safetensors", "x");
    folder_.write("secret.safetensors", "x");
    ServiceOptions out;
    out.engine.model = folder_.path() / "model";
    return out;
  }
  FakeJobService service_with_loras_;
};

TEST_F(NativeLoras, AreNamedNeverLocated) {
  EXPECT_EQ(json_of(get("/v1/loras"))["data"][0]["id"], "turbo");
  const json forms[] = {"turbo",
                        "turbo.safetensors",
                        "turbo:0.5",
                        json{{"name", "turbo"}, {"scale", 0.5}},
                        json::array({json{{"name", "turbo"}}}),
                        R"({"name": "turbo", "scale": 0.5})",
                        json{{"name", "h3-turbo"}, {"path", "/elsewhere/turbo.safetensors"}, {"scale", 1.0}}};
  for (const json& lora : forms) {
    const auto response = post("/v1/videos", {{"prompt", "x"}, {"lora", lora}});
    ASSERT_EQ(response.status, 200) << lora << std::get<std::string>(response.body);
    const Request request = service_with_loras_.jobs().back().spec.request;
    ASSERT_EQ(request.loras.size(), 1u);
    EXPECT_EQ(request.loras[0].file, folder_.path() / "model/loras/turbo.safetensors");
  }
  EXPECT_EQ(service_with_loras_.jobs()[2].spec.request.loras[0].strength, 0.5);
  for (const json& lora :
       {json("../secret"), json("/etc/passwd"), json(5), json(json{{"scale", 1}}), json(json{{"name", "turbo"}, {"scale", "much"}}),
        json(json{{"path", (folder_.path() / "secret.safetensors").string()}})})
    EXPECT_EQ(post("/v1/videos", {{"prompt", "x"}, {"lora", lora}}).status, 400) << lora;
}

}  // namespace
}  // namespace tritium::test
