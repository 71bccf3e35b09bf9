// POST /v2/video_generation and /v1/video_generation: what becomes a job, and what is refused.
#include "minimax_server.h"

namespace tritium::test {
namespace {

TEST(MinimaxCreate, TextToVideo) {
  MinimaxServer server;
  const std::string id = server.create(text_to_video());
  const auto job = server.service.get(id, "");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->spec.dialect, "minimax");
  EXPECT_EQ(job->spec.request.prompt, "waves");
  EXPECT_EQ(job->spec.request.aspect, "16:9");
  EXPECT_EQ(job->spec.request.seconds, 5.0);
  EXPECT_EQ(job->spec.request.noise, "diffsynth");
}

TEST(MinimaxCreate, Keyframes) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  body["ratio"] = "adaptive";
  body["content"].push_back(media_item("image_url", "first_frame", kPixel));
  body["content"].push_back(media_item("image_url", "last_frame", kPixel));
  const auto job = server.service.get(server.create(body), "");
  EXPECT_FALSE(job->spec.request.first_frame.empty());
  EXPECT_FALSE(job->spec.request.last_frame.empty());
  EXPECT_EQ(job->spec.request.aspect, "");
  // A ratio beside a keyframe has no effect, as in the hosted service; here that is said.
  body["ratio"] = "9:16";
  const auto task = server.get("/v2/query/video_generation/" + server.create(body))["task"];
  EXPECT_EQ(task["adjustments"][0]["field"], "ratio");
}

TEST(MinimaxCreate, ReferencesInTheirOrder) {
  MinimaxServer server;
  const auto video = server.upload("dance.mp4", "video bytes"), sound = server.upload("voice.wav", "sound bytes");
  OrderedJson body = text_to_video();
  body["content"].push_back(media_item("video_url", "reference_video", "mm_file://" + std::to_string(video)));
  body["content"].push_back(media_item("image_url", "reference_image", kPixel));
  body["content"].push_back(media_item("audio_url", "reference_audio", "mm_file://" + std::to_string(sound)));
  const auto job = server.service.get(server.create(body), "");
  ASSERT_EQ(job->spec.request.references.size(), 3u);
  EXPECT_EQ(job->spec.request.references[0].kind, ReferenceInput::Kind::video);
  EXPECT_EQ(content_of(job->spec.request.references[0].file), "video bytes");
  EXPECT_EQ(job->spec.request.references[1].kind, ReferenceInput::Kind::image);
  EXPECT_EQ(job->spec.request.references[2].kind, ReferenceInput::Kind::audio);
}

TEST(MinimaxCreate, FramesAndReferencesExcludeEachOther) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  body["content"].push_back(media_item("image_url", "first_frame", kPixel));
  body["content"].push_back(media_item("image_url", "reference_image", kPixel));
  EXPECT_EQ(server.refusal(body),
            "content: first_frame and last_frame cannot be combined with references (give keyframes or references, not both)");
}

// Text alone has no shape of its own.
TEST(MinimaxCreate, A3_TextNeedsAConcreteRatio) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  body["ratio"] = "adaptive";
  EXPECT_EQ(server.refusal(body),
            "ratio: 'adaptive' needs a picture to take the shape from (a text alone needs one of 21:9, 16:9, 4:3, 1:1, 3:4, 9:16)");
  body.erase("ratio");
  EXPECT_EQ(server.refusal(body), "ratio: is missing (a text alone needs one of 21:9, 16:9, 4:3, 1:1, 3:4, 9:16)");
  body["ratio"] = "2:1";
  EXPECT_EQ(server.refusal(body), "ratio: '2:1' is not allowed; allowed are adaptive, 21:9, 16:9, 4:3, 1:1, 3:4, 9:16");
}

TEST(MinimaxCreate, ValuesOutOfRange) {
  MinimaxServer server;
  const auto refusal = [&](const char* field, OrderedJson value) {
    OrderedJson body = text_to_video();
    body[field] = std::move(value);
    return server.refusal(body);
  };
  EXPECT_EQ(refusal("duration", 3), "duration: 3 is not allowed; allowed are whole numbers from 4 to 15");
  EXPECT_EQ(refusal("duration", 16), "duration: 16 is not allowed; allowed are whole numbers from 4 to 15");
  EXPECT_EQ(refusal("duration", "5"), "duration: \"5\" is not allowed; allowed are whole numbers from 4 to 15");
  EXPECT_EQ(refusal("duration", 5.5), "duration: 5.5 is not allowed; allowed are whole numbers from 4 to 15");
  EXPECT_EQ(refusal("duration", 18446744073709551615ull),
            "duration: 18446744073709551615 is not allowed; allowed are whole numbers from 4 to 15");
  EXPECT_EQ(refusal("resolution", "2K"), "resolution: '2K' is not offered: the model makes 768P; allowed is 768P (ask for 768P)");
  EXPECT_EQ(refusal("model", "MiniMax-H3-Max"), "model: 'MiniMax-H3-Max' is not allowed; allowed are MiniMax-H3");
  EXPECT_EQ(refusal("aigc_watermark", true), "aigc_watermark: true is not offered: no mark is put into videos; allowed is false");
  EXPECT_EQ(refusal("content", OrderedJson::array()).rfind("content: is missing or empty", 0), 0u);
  EXPECT_EQ(refusal("content", {text_item("a"), text_item("b")}).rfind("content[1]: is a second text", 0), 0u);
  EXPECT_EQ(refusal("content", {text_item("  ")}).rfind("content: a text is missing", 0), 0u);
  EXPECT_EQ(refusal("content", {{{"type", "image"}}}),
            "content[0].type: 'image' is not allowed; allowed are text, image_url, video_url, audio_url");
  EXPECT_EQ(refusal("content", {text_item("a"), media_item("image_url", "reference_video", kPixel)}),
            "content[1].role: 'reference_video' is not allowed; allowed are first_frame, last_frame, reference_image");
  EXPECT_EQ(refusal("content", {text_item("a"), {{"type", "image_url"}, {"role", "first_frame"}}}),
            "content[1].image_url: is missing; send {\"url\": \"...\"}");
}

TEST(MinimaxCreate, Limits) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  std::string umlauts;
  for (int i = 0; i < 7000; ++i) umlauts += "\xc3\xa4";  // characters count, not bytes
  body["content"] = {text_item(umlauts)};
  server.create(body);
  body["content"] = {text_item(umlauts + "x")};
  EXPECT_EQ(server.refusal(body), "content: the text has 7001 characters; allowed are 7000 (shorten it)");
  body["content"] = {text_item("x")};
  for (int i = 0; i < 10; ++i) body["content"].push_back(media_item("image_url", "reference_image", kPixel));
  EXPECT_EQ(server.refusal(body), "content: 10 items have the role reference_image; allowed are 9");
  body["content"] = {text_item("x"), media_item("audio_url", "reference_audio", "mm_file://1")};
  EXPECT_EQ(server.refusal(body), "content: a reference_audio needs a reference_image or a reference_video beside it");
  body["content"] = {text_item("x"), media_item("image_url", "first_frame", kPixel), media_item("image_url", "first_frame", kPixel)};
  EXPECT_EQ(server.refusal(body), "content: 2 items have the role first_frame; allowed are 1");
}

TEST(MinimaxCreate, AddressesOnlyWhereTheyAreAllowed) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  body["content"].push_back(media_item("image_url", "first_frame", "https://example.com/a.png"));
  EXPECT_NE(server.refusal(body).find("content[1].image_url.url"), std::string::npos);
  EXPECT_NE(server.refusal(body).find("--allow-url-inputs"), std::string::npos);
  for (const char* url : {"file:///etc/passwd", "/etc/passwd", "../x", "mm_file://../../x", "mm_file://123456789012345", "ftp://x/y"}) {
    body["content"][1]["image_url"]["url"] = url;
    EXPECT_EQ(server.refusal(body).rfind("content[1].image_url.url: ", 0), 0u) << url;
  }
  body = text_to_video();
  body["callback_url"] = "http://127.0.0.1:9/x";
  EXPECT_NE(server.refusal(body).find("--allow-url-inputs"), std::string::npos);
  EXPECT_TRUE(server.service.jobs().empty());
}

// An address that cannot be reached is the client's matter, not the server's failure.
TEST(MinimaxCreate, A13_UnreachableAddressIs400) {
  minimax::Options options;
  options.urls.allowed = true;
  options.urls.hosts = {"127.0.0.1:9"};
  MinimaxServer server(options);
  OrderedJson body = text_to_video();
  body["content"].push_back(media_item("image_url", "first_frame", "http://127.0.0.1:9/x.png"));
  EXPECT_EQ(server.refusal(body).rfind("content[1].image_url.url: ", 0), 0u);
}

TEST(MinimaxCreate, A19_TheSameBodyTwiceIsTwoTasks) {
  MinimaxServer server;
  EXPECT_NE(server.create(text_to_video()), server.create(text_to_video()));
  EXPECT_EQ(server.service.jobs().size(), 2u);
}

TEST(MinimaxCreate, UnknownFieldsAreNoted) {
  MinimaxServer server;
  OrderedJson body = text_to_video();
  body["style"] = "noir";
  body["seed"] = 42;
  const std::string id = server.create(body);
  EXPECT_EQ(server.service.get(id, "")->spec.request.seed, 42u);
  EXPECT_EQ(server.get("/v2/query/video_generation/" + id)["task"]["adjustments"][0]["field"], "style");
}

TEST(MinimaxCreate, HostileBodies) {
  MinimaxServer server;
  for (const std::string& body : {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string(200000, '['),
                                  std::string("{\"content\":5}"), std::string("{\"model\":[],\"content\":{}}")}) {
    const auto response = answer(server.router, "POST", "/v2/video_generation", body);
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(document(response)["type"], "error");
  }
}

TEST(MinimaxCreate, RefusalsOfThePlanner) {
  MinimaxServer server;
  server.service.refuse_next({ErrorCode::does_not_fit, "needs 80 GiB, there are 8 GiB", "", "choose fewer seconds"});
  auto response = server.call("POST", "/v2/video_generation", text_to_video());
  EXPECT_EQ(response.status, 422);
  EXPECT_EQ(document(response)["error"]["type"], "unprocessable_entity_error");
  server.service.refuse_next({ErrorCode::model, "this is the FL2VA model", "model", ""});
  EXPECT_EQ(server.call("POST", "/v2/video_generation", text_to_video()).status, 400);
  server.service.refuse_next({ErrorCode::busy, "the queue is full", "", ""});
  response = server.call("POST", "/v2/video_generation", text_to_video());
  EXPECT_EQ(document(response)["error"]["type"], "overloaded_error");
  EXPECT_FALSE(header_of(response, "retry-after").empty());
}

TEST(MinimaxCreate, TheOlderInterface) {
  MinimaxServer server;
  auto response = server.call("POST", "/v1/video_generation",
                              {{"model", "MiniMax-Hailuo-02"},
                               {"prompt", "waves"},
                               {"first_frame_image", kPixel},
                               {"duration", 6},
                               {"resolution", "768P"},
                               {"prompt_optimizer", true}});
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(document(response)["base_resp"]["status_code"], 0);
  const std::string id = document(response)["task_id"];
  EXPECT_EQ(server.service.get(id, "")->spec.request.seconds, 6.0);
  EXPECT_FALSE(server.service.get(id, "")->spec.request.first_frame.empty());
  response = server.call("POST", "/v1/video_generation", {{"model", "video-99"}, {"prompt", "waves"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(document(response)["base_resp"]["status_code"], 2013);
  response = server.call("POST", "/v1/video_generation", {{"model", "T2V-01"}, {"prompt", "waves"}, {"resolution", "1080P"}});
  EXPECT_NE(document(response)["base_resp"]["status_msg"].get<std::string>().find("allowed is 768P"), std::string::npos);
}

TEST(MinimaxCreate, WhatIsNotOffered) {
  MinimaxServer server;
  for (const char* path : {"/v2/h3_context_ir", "/v2/video_regeneration"}) {
    const auto response = server.call("POST", path, text_to_video());
    EXPECT_EQ(response.status, 400);
    EXPECT_NE(document(response)["error"]["message"].get<std::string>().find("not offered"), std::string::npos);
  }
}

}  // namespace
}  // namespace tritium::test
