// Fields of the bodies that OpenAI's, SGLang's, vLLM-Omni's and FastVideo's clients send.
#include "api/native_fixture.h"

namespace tritium::test {
namespace {

using nlohmann::json;

class NativeFields : public Native {};

bool adjusted(const json& video, const std::string& field, const std::string& from, const std::string& to) {
  for (const json& a : video["adjustments"])
    if (a["field"] == field && a["from"] == from && a["to"] == to) return true;
  return false;
}

TEST_F(NativeFields, APromptIsEnough) {
  const Job job = accepted({{"prompt", "a red circle"}});
  EXPECT_EQ(job.spec.request.prompt, "a red circle");
  EXPECT_EQ(job.spec.dialect, "videos");
  EXPECT_EQ(job.plan.width, 1344);
  const json v = video(job.id);
  EXPECT_EQ(v["object"], "video");
  EXPECT_EQ(v["status"], "queued");
  EXPECT_EQ(v["progress"], 0);
  EXPECT_EQ(v["size"], "1344x768");
  EXPECT_EQ(v["task"], "t2va");
  EXPECT_TRUE(v["error"].is_null());
}

TEST_F(NativeFields, BodiesThatAreNone) {
  expect_refusal(send("POST", "/v1/videos", ""), "", {"empty"});
  expect_refusal(send("POST", "/v1/videos", "{"), "", {"not JSON"});
  expect_refusal(send("POST", "/v1/videos", "[]"), "", {"a list"});
  expect_refusal(send("POST", "/v1/videos", "\"x\""), "", {"a text"});
  expect_refusal(send("POST", "/v1/videos", std::string(100000, '[')), "", {});
  expect_refusal(send("POST", "/v1/videos", "{\"prompt\": \"\xff\"}"), "", {"not JSON"});
  refused(json::object(), "prompt", {"missing"});
  refused({{"prompt", nullptr}}, "prompt", {"missing"});
  refused({{"prompt", 5}}, "prompt", {"a number"});
  refused({{"prompt", "  \n"}}, "prompt", {"empty"});
  refused({{"prompt", std::string(7001, 'x')}}, "prompt", {"7001", "7000"});
  std::string long_but_fine;
  for (int i = 0; i < 7000; ++i) long_but_fine += "é";  // characters, not bytes
  accepted({{"prompt", long_but_fine}});
  EXPECT_EQ(service_.jobs().size(), 1u);
}

TEST_F(NativeFields, OpenAiSecondsAndSize) {
  for (const json& seconds : {json("8"), json(8), json(8.0)}) {
    const Job job = accepted({{"prompt", "x"}, {"model", "sora-2"}, {"seconds", seconds}, {"size", "1280x720"}});
    EXPECT_EQ(job.spec.request.seconds, 8.0);
    EXPECT_EQ(job.plan.frames, 192);
    EXPECT_EQ(job.plan.width, 1280);
    EXPECT_EQ(job.plan.height, 736);
    const json v = video(job.id);
    EXPECT_EQ(v["seconds"], seconds.is_string() ? "8" : seconds.dump());
    EXPECT_EQ(v["num_frames"], 192);
    EXPECT_EQ(v["size"], "1280x736");
    EXPECT_TRUE(adjusted(v, "height", "720", "736")) << v["adjustments"];
    EXPECT_TRUE(adjusted(v, "model", "sora-2", "MiniMax-H3")) << v["adjustments"];
  }
  refused({{"prompt", "x"}, {"seconds", "long"}}, "seconds", {"long"});
  refused({{"prompt", "x"}, {"seconds", true}}, "seconds", {"truth value"});
  for (const char* size : {"1280", "x720", "1280x", "axb", "1280x720x3", "-5x7", "99999999999x7"})
    refused({{"prompt", "x"}, {"size", size}}, "size", {"WIDTHxHEIGHT"});
  refused({{"prompt", "x"}, {"size", "0x32"}}, "size", {"0"});
  refused({{"prompt", "x"}, {"size", "99999x32"}}, "size", {"8192"});
  refused({{"prompt", "x"}, {"size", "64x64"}, {"width", 96}, {"height", 64}}, "size", {"contradicts"});
  refused({{"prompt", "x"}, {"width", 96}}, "height", {"missing"});
  refused({{"prompt", "x"}, {"width", "96"}, {"height", 96}}, "width", {"a text", "without quotes"});
}

// As the official scripts post it, but for the length of the prompt.
TEST_F(NativeFields, SglangTextToVideo) {
  const Job job = accepted(json::parse(R"({"task": "t2va", "prompt": "integrated_multimodal_description: [Shot 1] ...", "conditions": [],
    "target": {"short_edge": 768, "aspect_ratio": "16:9", "duration_seconds": 10}, "seed": 0})"));
  EXPECT_EQ(job.plan.width, 1344);
  EXPECT_EQ(job.plan.height, 768);
  EXPECT_EQ(job.plan.frames, 243);
  EXPECT_EQ(job.spec.request.seed, 0u);
  EXPECT_TRUE(video(job.id)["warnings"].empty());
}

TEST_F(NativeFields, SglangAllFields) {
  const Job job = accepted(json::parse(R"({"model": "MiniMaxAI/MiniMax-H3", "prompt": "x", "seconds": 15, "task": "t2va", "conditions": [],
    "target": {"short_edge": 768, "aspect_ratio": "9:16", "duration_seconds": 5.0}, "num_outputs_per_prompt": 2,
    "num_inference_steps": 50, "flow_shift": 12.0, "audio_flow_shift": 3.0, "seed": 42, "quality": "high",
    "output_quality": "high", "output_compression": 90, "extra_body": {"noise": "sglang"}, "something_new": 1})"));
  EXPECT_EQ(job.spec.outputs, 2);
  EXPECT_EQ(job.plan.steps, 50);
  EXPECT_EQ(job.plan.height, 1344);
  EXPECT_EQ(job.spec.request.noise, "sglang");
  const json v = video(job.id);
  EXPECT_TRUE(adjusted(v, "seconds", "15", "5")) << v["adjustments"];
  EXPECT_TRUE(adjusted(v, "quality", "high", "lossless")) << v["adjustments"];  // A7: said, not a 500
  EXPECT_NE(v["warnings"].dump().find("something_new"), std::string::npos);
  EXPECT_NE(v["warnings"].dump().find("output_compression"), std::string::npos);
}

TEST_F(NativeFields, VllmForm) {
  const auto response = form("/v1/videos", {{"prompt", "In a snowy forest"},
                                            {"width", "1344"},
                                            {"height", "768"},
                                            {"aspect_ratio", "16:9"},
                                            {"fps", "24"},
                                            {"num_inference_steps", "50"},
                                            {"flow_shift", "12"},
                                            {"seed", "1101"},
                                            {"extra_params", R"({"task":"t2va","duration":8.7,"audio_flow_shift":3.0})"}});
  ASSERT_EQ(response.status, 200) << std::get<std::string>(response.body);
  const Request request = service_.jobs().back().spec.request;
  EXPECT_EQ(request.width, 1344);
  EXPECT_EQ(request.seconds, 8.7);
  EXPECT_EQ(request.audio_shift, 3.0);
  EXPECT_EQ(request.seed, 1101u);
  EXPECT_EQ(service_.jobs().back().plan.frames, 209);
  EXPECT_TRUE(json_of(response)["warnings"].empty()) << json_of(response)["warnings"];
}

TEST_F(NativeFields, ExtraParams) {
  for (const json& extra : {json({{"duration", 5}}), json(R"({"duration": 5})")}) {
    EXPECT_EQ(accepted({{"prompt", "x"}, {"extra_params", extra}}).plan.frames, 124);
    EXPECT_EQ(accepted({{"prompt", "x"}, {"extra_body", extra}}).plan.frames, 124);
    EXPECT_EQ(accepted({{"prompt", "x"}, {"extra_json", extra}}).plan.frames, 124);
  }
  refused({{"prompt", "x"}, {"extra_params", "{"}}, "extra_params", {"not JSON"});
  refused({{"prompt", "x"}, {"extra_params", 5}}, "extra_params", {"a number"});
  refused({{"prompt", "x"}, {"seed", 1}, {"extra_params", {{"seed", 2}}}}, "extra_params.seed", {"contradicts"});
  accepted({{"prompt", "x"}, {"seed", 1}, {"extra_params", {{"seed", 1}}}});
  for (const double duration : {3.9, 15.1, 0.0, -1.0})
    refused({{"prompt", "x"}, {"extra_params", {{"duration", duration}}}}, "duration", {"4 to 15"});
}

TEST_F(NativeFields, Accelerations) {
  EXPECT_FALSE(accepted({{"prompt", "x"}}).plan.acceleration.any());
  const Job job = accepted(json::parse(R"({"prompt": "x", "acceleration": {"reuse_velocity": 3, "blocks": 40, "draft": true}})"));
  EXPECT_EQ(job.plan.acceleration.reuse_velocity, 3);
  EXPECT_EQ(job.plan.acceleration.blocks, 40);
  EXPECT_TRUE(job.plan.acceleration.draft);
  EXPECT_EQ(video(job.id)["request"]["acceleration"], json::parse(R"({"reuse_velocity": 3, "blocks": 40, "draft": true})"));
  EXPECT_EQ(accepted({{"prompt", "x"}, {"acceleration", {{"easycache", 0.3}}}}).plan.acceleration.easycache, 0.3);
  EXPECT_EQ(accepted({{"prompt", "x"}, {"acceleration", {{"easycache", true}}}}).plan.acceleration.easycache, 0.2);
  EXPECT_FALSE(accepted({{"prompt", "x"}, {"acceleration", {{"easycache", false}}}}).plan.acceleration.easycache);
  const Acceleration part = accepted({{"prompt", "x"}, {"acceleration", R"({"easycache": {"start": 0.3, "end": 0.6}})"}}).plan.acceleration;
  EXPECT_EQ(part.easycache, 0.2);
  EXPECT_EQ(part.easycache_start, 0.3);
  EXPECT_EQ(part.easycache_end, 0.6);
  refused({{"prompt", "x"}, {"acceleration", {{"reuse_core", 7}}}}, "acceleration.reuse_core", {"7", "1 to 6"});
  refused({{"prompt", "x"}, {"acceleration", {{"reuse_core", 2}, {"easycache", 0.2}}}}, "acceleration.easycache", {"exclude each other"});
  refused({{"prompt", "x"}, {"acceleration", {{"easycache", {{"start", 0.9}, {"end", 0.1}}}}}}, "acceleration.easycache.start",
          {"part of a run"});
  refused({{"prompt", "x"}, {"acceleration", {{"blocks", 51}}}}, "acceleration.blocks", {"51", "50"});
  refused({{"prompt", "x"}, {"acceleration", {{"draft", 3}}}}, "acceleration.draft", {"true or false"});
  refused({{"prompt", "x"}, {"acceleration", 3}}, "acceleration", {"not an object"});
  const Job odd = accepted({{"prompt", "x"}, {"acceleration", {{"turbo", true}}}});
  EXPECT_NE(video(odd.id)["warnings"].dump().find("acceleration.turbo"), std::string::npos);
}

TEST_F(NativeFields, FastVideoFields) {
  const Job job = accepted(json::parse(R"({"prompt": "x", "seconds": 4, "fps": 24, "num_frames": 96, "seed": 1024,
    "negative_prompt": "", "guidance_scale": 1.0, "guidance_scale_2": null, "enable_teacache": false})"));
  EXPECT_EQ(job.plan.frames, 107);
  EXPECT_EQ(video(job.id)["num_frames"], 107);
  refused({{"prompt", "x"}, {"negative_prompt", "ugly"}}, "negative_prompt", {"ugly", "distilled"});
  refused({{"prompt", "x"}, {"guidance_scale", 4.5}}, "guidance_scale", {"4.5", "allowed is 1"});
  refused({{"prompt", "x"}, {"true_cfg_scale", 2}}, "true_cfg_scale", {"allowed is 1"});
  refused({{"prompt", "x"}, {"enable_teacache", true}}, "enable_teacache", {"only as 'acceleration' says"});
}

TEST_F(NativeFields, A1_OnlyTheModelsOwnRate) {
  for (const json& fps : {json(30), json(0), json(23.976), json("25")}) refused({{"prompt", "x"}, {"fps", fps}}, "fps", {"24"});
  accepted({{"prompt", "x"}, {"fps", 24}});
  accepted({{"prompt", "x"}, {"fps", "24"}});
}

TEST_F(NativeFields, A2_ManyBadRequestsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> refusals = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) refusals += post("/v1/videos", {{"prompt", "x"}, {"fps", i * 100 + k + 25}}).status == 400 ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refusals, 160);
  EXPECT_TRUE(service_.jobs().empty());
  accepted({{"prompt", "x"}});
}

TEST_F(NativeFields, A3_WithoutAShapeTheModelsOwn) {
  const Job job = accepted({{"prompt", "x"}, {"task", "t2va"}});
  EXPECT_EQ(job.plan.width, 1344);
  EXPECT_EQ(job.plan.height, 768);
  refused({{"prompt", "x"}, {"aspect_ratio", "auto"}}, "aspect_ratio", {"16:9", "9:16"});
  refused({{"prompt", "x"}, {"target", {{"aspect_ratio", "auto"}}}}, "target.aspect_ratio", {"16:9"});
  refused({{"prompt", "x"}, {"aspect_ratio", "wide"}}, "aspect_ratio", {"wide"});
  refused({{"prompt", "x"}, {"aspect_ratio", "9:1"}}, "aspect_ratio", {"1:4 and 4:1"});
}

TEST_F(NativeFields, A12_ClientsDoNotNameFilesOfTheServer) {
  for (const char* path : {"/etc/passwd", "../../x", "out.mp4"})
    refused({{"prompt", "x"}, {"output_path", path}}, "output_path", {path, "content"});
  for (const char* uri : {"file:///etc/passwd", "/etc/passwd", "../x.png", "ftp://host/x.png"}) {
    refused({{"prompt", "x"}, {"input_reference", uri}}, "input_reference");
    refused({{"prompt", "x"}, {"conditions", json::array({json{{"type", "image"}, {"role", "keyframe"}, {"uri", uri}}})}},
            "conditions[0].uri");
  }
  refused({{"prompt", "x"}, {"lora", {{"name", "x"}, {"path", "/etc/passwd"}}}}, "lora", {"passwd"});
}

TEST_F(NativeFields, A13_UnreachableAddress) {
  policy_.allowed = true;
  policy_.hosts = {"127.0.0.1:9"};
  mount();
  refused({{"prompt", "x"}, {"input_reference", {{"image_url", "http://127.0.0.1:9/x.png"}}}}, "input_reference");
}

TEST_F(NativeFields, A16_AFormWithoutAPicture) {
  const auto response = form("/v1/videos", {{"prompt", "x"}, {"input_reference", ""}, {"seconds", "4"}});
  EXPECT_EQ(response.status, 200) << std::get<std::string>(response.body);
  EXPECT_EQ(service_.jobs().back().plan.mode, "t2va");
}

TEST_F(NativeFields, A27_LengthsAreRaisedToTheGrid) {
  for (int frames = 1; frames <= 400; frames += 7) {
    const json v = video(accepted({{"prompt", "x"}, {"num_frames", frames}}).id);
    const int made = v["num_frames"];
    EXPECT_GE(made, frames);
    EXPECT_EQ((made - 5) % 17, 0);
    EXPECT_TRUE(made - frames < 17 || made == 5);
  }
  for (int seconds = 4; seconds <= 15; ++seconds) {
    const json v = video(accepted({{"prompt", "x"}, {"seconds", seconds}}).id);
    EXPECT_EQ((v["num_frames"].get<int>() - 5) % 17, 0);
    EXPECT_GE(v["num_frames"].get<int>(), 24 * seconds);
    EXPECT_LT(v["num_frames"].get<int>(), 24 * seconds + 17);
  }
  EXPECT_EQ(accepted({{"prompt", "x"}, {"seconds", 15}}).plan.frames, 362);
  refused({{"prompt", "x"}, {"num_frames", 0}}, "num_frames", {"1..3609"});
  refused({{"prompt", "x"}, {"num_frames", 4000}}, "num_frames", {"3609"});
  refused({{"prompt", "x"}, {"num_frames", 1.5}}, "num_frames", {"whole"});
  refused({{"prompt", "x"}, {"num_frames", 96}, {"seconds", 8}}, "num_frames", {"192"});
}

TEST_F(NativeFields, A29_OnlyThisModelsGrid) {
  for (const auto& [asked, made] : {std::pair{34, 39}, {124, 124}, {168, 175}, {81, 90}, {121, 124}})
    EXPECT_EQ(accepted({{"prompt", "x"}, {"frames", asked}}).plan.frames, made);
}

TEST_F(NativeFields, A32_TheShapeIsAsAsked) {
  for (const auto& [ratio, value] :
       {std::pair{"21:9", 21.0 / 9}, {"16:9", 16.0 / 9}, {"4:3", 4.0 / 3}, {"1:1", 1.0}, {"3:4", 0.75}, {"9:16", 9.0 / 16}}) {
    const Job job = accepted({{"prompt", "x"}, {"aspect_ratio", ratio}});
    EXPECT_NEAR(static_cast<double>(job.plan.width) / job.plan.height, value, 0.06 * value) << ratio;
  }
  const Job small = accepted({{"prompt", "x"}, {"aspect_ratio", "1:1"}, {"short_edge", 96}});
  EXPECT_EQ(small.plan.width, 96);
  EXPECT_EQ(small.plan.height, 96);
  EXPECT_EQ(accepted({{"prompt", "x"}, {"size", "96x160"}}).plan.height, 160);
  refused({{"prompt", "x"}, {"size", "96x160"}, {"aspect_ratio", "16:9"}}, "aspect_ratio", {"contradicts"});
  refused({{"prompt", "x"}, {"size", "96x160"}, {"short_edge", 768}}, "short_edge", {"contradicts"});
  refused({{"prompt", "x"}, {"short_edge", 5}, {"aspect_ratio", "1:1"}}, "short_edge", {"32 to 2048"});
}

TEST_F(NativeFields, A35_ModesOfOtherModels) {
  for (const char* task : {"t2i", "i2v", "image", "t2v"}) refused({{"prompt", "x"}, {"task", task}}, "task", {task, "t2va, fl2va, ref2va"});
  refused({{"prompt", "x"}, {"task", "fl2va"}}, "task", {"first or last frame"});
  refused({{"prompt", "x"}, {"task", "ref2va"}}, "task", {"references"});
  service_.refuse_next({ErrorCode::model, "this is the FL2VA model; references need the Ref2VA model", "model", "name it"});
  refused({{"prompt", "x"}}, "model", {"Ref2VA"});
}

TEST_F(NativeFields, NumbersOutOfRange) {
  refused({{"prompt", "x"}, {"num_inference_steps", 0}}, "num_inference_steps", {"1"});
  refused({{"prompt", "x"}, {"steps", 5000}}, "steps", {"1000"});
  refused({{"prompt", "x"}, {"steps", 1e300}}, "steps", {});
  refused({{"prompt", "x"}, {"steps", 10}, {"num_inference_steps", 20}}, "steps", {"contradicts"});
  refused({{"prompt", "x"}, {"flow_shift", 0}}, "flow_shift", {});
  refused({{"prompt", "x"}, {"audio_flow_shift", "3"}}, "audio_flow_shift", {"without quotes"});
  refused({{"prompt", "x"}, {"seed", -1}}, "seed", {"leave it out"});
  refused({{"prompt", "x"}, {"seed", 1.5}}, "seed", {"whole"});
  EXPECT_EQ(accepted({{"prompt", "x"}, {"seed", 18446744073709551615ull}}).spec.request.seed, 18446744073709551615ull);
  for (const json& n : {json(0), json(11), json(-1), json("two")}) refused({{"prompt", "x"}, {"n", n}}, "n", {});
  refused({{"prompt", "x"}, {"n", 2}, {"num_outputs_per_prompt", 3}}, "n", {"contradicts"});
  refused({{"prompt", "x"}, {"priority", 101}}, "priority", {"-100 to 100"});
  refused({{"prompt", "x"}, {"deadline_seconds", 0}}, "deadline_seconds", {});
  for (const char* id : {"../x", "a b", "ü"}) refused({{"prompt", "x"}, {"id", id}}, "id", {"64"});
  refused({{"prompt", "x"}, {"generate_sound", false}}, "generate_sound", {"true"});
  refused({{"prompt", "x"}, {"seconds", 4}, {"sound_duration", 9}}, "sound_duration", {"as long as the clip"});
  accepted({{"prompt", "x"}, {"generate_sound", true}, {"seconds", 4}, {"sound_duration", 4}});
}

TEST_F(NativeFields, UnknownKeysAreNamed) {
  const json v = video(accepted({{"prompt", "x"}, {"num_inference_step", 5}, {"sede", 1}, {"completely_else", true}}).id);
  const std::string warnings = v["warnings"].dump();
  EXPECT_NE(warnings.find("did you mean 'num_inference_steps'"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("did you mean 'seed'"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("completely_else"), std::string::npos) << warnings;
}

TEST_F(NativeFields, AFormOfOpenAisClient) {
  const auto response = form(
      "/v1/videos",
      {{"model", "sora-2"}, {"prompt", "x"}, {"seconds", "4"}, {"size", "1280x704"}, {"extra_params[noise]", "comfyui"}, {"lora[]", ""}});
  EXPECT_EQ(response.status, 400);
  const auto without = form("/v1/videos", {{"model", "sora-2"},
                                           {"prompt", "x"},
                                           {"seconds", "4"},
                                           {"size", "1280x704"},
                                           {"extra_params[noise]", "comfyui"},
                                           {"n", "2"},
                                           {"force", "True"}});
  ASSERT_EQ(without.status, 200) << std::get<std::string>(without.body);
  EXPECT_EQ(service_.jobs().back().spec.request.noise, "comfyui");
  EXPECT_TRUE(service_.jobs().back().spec.request.force);
  expect_refusal(form("/v1/videos", {{"prompt", "x"}, {"seed", "12x"}}), "seed", {"12x"});
  expect_refusal(form("/v1/videos", {{"prompt", "\xff"}}), "prompt", {"UTF-8"});
}

}  // namespace
}  // namespace tritium::test
