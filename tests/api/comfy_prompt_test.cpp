// POST /prompt: what becomes a job, and what is answered.
#include "comfy_server.h"

namespace tritium::test {
namespace {

constexpr const char* kId = "123e4567-e89b-12d3-a456-426614174000";

TEST(ComfyPrompt, APromptBecomesAJob) {
  ComfyServer server;
  const auto response =
      server.call("POST", "/prompt",
                  {{"prompt", prompt_of("comfy_t2v")},
                   {"client_id", "me"},
                   {"extra_data", {{"extra_pnginfo", {{"workflow", {{"id", "w1"}}}}}, {"auth_token_comfy_org", "secret"}}}});
  ASSERT_EQ(response.status, 200);
  const auto body = document(response);
  EXPECT_EQ(body["node_errors"], OrderedJson::object());
  EXPECT_EQ(body["number"], 1);
  EXPECT_FALSE(body["adjustments"].empty());
  ASSERT_EQ(server.service.jobs().size(), 1u);
  const Job job = server.service.jobs()[0];
  EXPECT_EQ(job.id, body["prompt_id"].get<std::string>());
  EXPECT_EQ(job.spec.dialect, "comfy");
  EXPECT_EQ(job.spec.request.frames, 124);
  EXPECT_EQ(job.spec.dialect_data.find("secret"), std::string::npos);
  EXPECT_NE(job.spec.dialect_data.find("\"w1\""), std::string::npos);
  EXPECT_EQ(server.get("/prompt")["exec_info"]["queue_remaining"], 1);
}

TEST(ComfyPrompt, WithAndWithoutApi) {
  ComfyServer server;
  EXPECT_EQ(server.call("POST", "/api/prompt", {{"prompt", prompt_of("comfy_ksampler")}}).status, 200);
  EXPECT_EQ(server.get("/api/prompt")["exec_info"]["queue_remaining"], 1);
  for (const char* path : {"/queue", "/history", "/system_stats", "/object_info", "/features", "/embeddings", "/models"}) {
    EXPECT_EQ(server.call("GET", path).status, 200) << path;
    EXPECT_EQ(server.call("GET", std::string("/api") + path).status, 200) << path;
  }
}

TEST(ComfyPrompt, TheClientsIdIsTheJobs) {
  ComfyServer server;
  EXPECT_EQ(server.queue(prompt_of("comfy_ksampler"), {{"prompt_id", kId}}), kId);
  const auto response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}, {"prompt_id", "ABC"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(document(response)["error"]["type"], "invalid_prompt_id");
}

// A second submission under the same id is told so, with the state of the first; nothing is dropped silently.
TEST(ComfyPrompt, A20_SameIdAgain) {
  ComfyServer server;
  server.queue(prompt_of("comfy_ksampler"), {{"prompt_id", kId}});
  auto response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}, {"prompt_id", kId}});
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(document(response)["error"], "prompt_id already exists");
  EXPECT_EQ(document(response)["status"], "queued");
  server.service.run(kId);
  server.service.fail(kId, {ErrorCode::device, "the worker died", "", "", "denoise", ""});
  response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}, {"prompt_id", kId}});
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(document(response)["status"], "failed");
  EXPECT_EQ(server.service.jobs().size(), 1u);
}

TEST(ComfyPrompt, A19_TheSamePromptTwiceRunsTwice) {
  ComfyServer server;
  const std::string first = server.queue(prompt_of("comfy_ksampler")), second = server.queue(prompt_of("comfy_ksampler"));
  EXPECT_NE(first, second);
  for (const std::string& id : {first, second}) {
    server.service.run(id);
    server.service.complete(id);
    const auto entry = server.get("/history/" + id)[id];
    EXPECT_EQ(entry["status"]["status_str"], "success");
    const auto file = entry["outputs"]["12"]["images"][0];
    EXPECT_EQ(server.call("GET", "/view?filename=" + file["filename"].get<std::string>() + "&type=output").status, 200);
  }
}

TEST(ComfyPrompt, FrontComesFirst) {
  ComfyServer server;
  server.queue(prompt_of("comfy_ksampler"));
  const std::string front = server.queue(prompt_of("comfy_ksampler"), {{"front", true}});
  const auto pending = server.get("/queue")["queue_pending"];
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[0][1], front);
  EXPECT_EQ(pending[0][0], -2.0);
  server.queue(prompt_of("comfy_ksampler"), {{"number", 17.5}});
  EXPECT_EQ(server.get("/queue")["queue_pending"][2][0], 17.5);
}

TEST(ComfyPrompt, BodiesThatAreNone) {
  ComfyServer server;
  EXPECT_EQ(document(server.call("POST", "/prompt", OrderedJson::object()))["error"]["type"], "no_prompt");
  for (const char* body : {"", "{", "[]", "5", "\"x\""}) {
    const auto response = answer(server.router, "POST", "/prompt", body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_TRUE(document(response)["error"].contains("message"));
  }
  const auto deep = answer(server.router, "POST", "/prompt", std::string(100000, '['));
  EXPECT_EQ(deep.status, 400);
  EXPECT_EQ(server.service.jobs().size(), 0u);
}

// What only the planner knows is told at the node that asked for it.
TEST(ComfyPrompt, RefusalsOfThePlannerNameTheNode) {
  ComfyServer server;
  server.service.refuse_next({ErrorCode::usage, "20000 is out of range; allowed are 32 to 4096", "width", "choose less"});
  auto response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(document(response)["error"]["type"], "prompt_outputs_failed_validation");
  EXPECT_EQ(document(response)["node_errors"]["5"]["errors"][0]["extra_info"]["input_name"], "width");
  server.service.refuse_next({ErrorCode::model, "this is the FL2VA model; references need the Ref2VA model", "model", ""});
  EXPECT_EQ(server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}}).status, 400);
  server.service.refuse_next({ErrorCode::does_not_fit, "needs 80 GiB, there are 8 GiB", "", "choose a smaller size"});
  response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}});
  EXPECT_EQ(response.status, 422);
  EXPECT_EQ(document(response)["error"]["details"], "choose a smaller size");
  server.service.refuse_next({ErrorCode::busy, "the queue is full: 1000 jobs wait", "", ""});
  response = server.call("POST", "/prompt", {{"prompt", prompt_of("comfy_ksampler")}});
  EXPECT_TRUE(response.status == 429 || response.status == 503);
  EXPECT_FALSE(header_of(response, "retry-after").empty());
}

// Eight bad ones and a good one: each is answered, the good one is there.
TEST(ComfyPrompt, A1_A2_BadRequestsDoNoHarm) {
  ComfyServer server;
  Json bad = prompt_of("comfy_ksampler");
  bad["11"]["inputs"]["fps"] = 30;
  for (int i = 0; i < 8; ++i) {
    const auto response = server.call("POST", "/prompt", {{"prompt", bad}});
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(document(response)["error"]["details"].get<std::string>().find("allowed is 24"), std::string::npos);
  }
  server.queue(prompt_of("comfy_ksampler"));
  EXPECT_EQ(server.service.jobs().size(), 1u);
}

TEST(ComfyPrompt, NodesAreDescribed) {
  ComfyServer server;
  server.upload("a.png", "picture");
  const auto all = server.get("/object_info");
  EXPECT_TRUE(all.contains("MiniMaxH3ReferenceToVideo"));
  EXPECT_EQ(all["LoadImage"]["input"]["required"]["image"][0], OrderedJson::array({"a.png"}));
  EXPECT_EQ(all["KSampler"]["input"]["required"]["sampler_name"][0], OrderedJson::array({"euler", "res_multistep"}));
  EXPECT_EQ(all["EmptyMiniMaxH3LatentAV"]["input"]["required"]["length"][1]["step"], 17);
  EXPECT_EQ(all["RandomNoise"]["input"]["required"]["noise_seed"][1]["max"], 18446744073709551615ull);
  EXPECT_EQ(all["SaveVideo"]["output_node"], true);
  const auto one = server.get("/object_info/SaveVideo");
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(server.get("/object_info/Nothing"), OrderedJson::object());
  for (const auto& [name, node] : all.items()) {
    EXPECT_EQ(node["name"], name);
    EXPECT_EQ(node["output"].size(), node["output_name"].size());
    EXPECT_EQ(node["input"]["required"].size(), node["input_order"]["required"].size());
  }
}

}  // namespace
}  // namespace tritium::test
