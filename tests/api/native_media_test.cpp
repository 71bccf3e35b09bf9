// Pictures, videos and sounds of requests.
#include "api/native_fixture.h"

#include "base/files.h"
#include "media/png_writer.h"

namespace tritium::test {
namespace {

using nlohmann::json;
using Kind = ReferenceInput::Kind;

class NativeMedia : public Native {
 protected:
  NativeMedia() {
    const std::vector<std::uint8_t> grey(64 * 32 * 3, 128);
    EXPECT_TRUE(write_png(folder_.path() / "wide.png", grey, 64, 32).ok());
    EXPECT_TRUE(write_png(folder_.path() / "tall.png", grey, 32, 64).ok());
    folder_.write("clip.mp4", std::string("\0\0\0\x18", 4) + "ftypmp42....");
    folder_.write("sound.wav", std::string("RIFF\x10\0\0\0WAVE", 12) + "....");
  }
  std::string file(const std::string& name) const { return "@" + (folder_.path() / name).string(); }
  static std::string data_url(const std::string& type, const std::string& base64) { return "data:" + type + ";base64," + base64; }
  // A PNG of one pixel.
  static std::string pixel() {
    return data_url("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC");
  }
  static std::string sound() { return data_url("audio/wav", "UklGRhAAAABXQVZFLi4uLg=="); }
  Job made(const http::HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << std::get<std::string>(response.body);
    return response.status == 200 ? service_.jobs().back() : Job();
  }
};

TEST_F(NativeMedia, OneReferenceIsTheFirstFrame) {
  for (const Job& job : {made(form("/v1/videos", {{"prompt", "x"}, {"input_reference", file("wide.png")}})),
                         accepted({{"prompt", "x"}, {"input_reference", pixel()}}),
                         accepted({{"prompt", "x"}, {"input_reference", {{"image_url", pixel()}}}}),
                         accepted({{"prompt", "x"}, {"image_reference", {{"image_url", {{"url", pixel()}}}}}}),
                         accepted({{"prompt", "x"}, {"reference_url", pixel()}}), accepted({{"prompt", "x"}, {"first_frame", pixel()}})}) {
    EXPECT_EQ(job.plan.mode, "fl2va");
    EXPECT_FALSE(job.spec.request.first_frame.empty());
    EXPECT_TRUE(std::filesystem::exists(job.spec.request.first_frame));
  }
  const Plan shaped = service_.jobs().front().plan;
  EXPECT_NEAR(static_cast<double>(shaped.width) / shaped.height, 2, 0.1);  // as the picture
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() / "spool"));
  refused({{"prompt", "x"}, {"input_reference", {{"file_id", "file-1"}}}}, "input_reference", {"file_id"});
  refused({{"prompt", "x"}, {"input_reference", 5}}, "input_reference", {"a number"});
  refused({{"prompt", "x"}, {"input_reference", json::object({{"x", 1}})}}, "input_reference", {"image_url"});
  refused({{"prompt", "x"}, {"input_reference", "form:nothing"}}, "input_reference", {"nothing"});
  refused({{"prompt", "x"}, {"input_reference", "https://example.com/x.png"}}, "input_reference");
}

TEST_F(NativeMedia, VllmKeyframes) {
  const std::vector<std::pair<std::string, std::string>> common{{"prompt", "x"}, {"num_inference_steps", "50"}};
  auto fields = common;
  fields.insert(fields.end(), {{"extra_params", R"({"task":"fl2va","duration":8.7,"frame_indices":[0,-1],"audio_flow_shift":3.0})"},
                               {"input_references", file("wide.png")},
                               {"input_references", file("tall.png")}});
  const Job both = made(form("/v1/videos", fields));
  EXPECT_EQ(*read_file(both.spec.request.first_frame), *read_file(folder_.path() / "wide.png"));
  EXPECT_EQ(*read_file(both.spec.request.last_frame), *read_file(folder_.path() / "tall.png"));
  fields = common;
  fields.insert(fields.end(), {{"extra_params", R"({"task":"fl2va","frame_indices":[-1]})"}, {"input_reference", file("tall.png")}});
  const Job last = made(form("/v1/videos", fields));
  EXPECT_TRUE(last.spec.request.first_frame.empty());
  EXPECT_FALSE(last.spec.request.last_frame.empty());
  refused({{"prompt", "x"}, {"frame_indices", {0, -1}}, {"input_reference", pixel()}}, "frame_indices", {"1 pictures for 2"});
  refused({{"prompt", "x"}, {"frame_indices", {3}}, {"input_reference", pixel()}}, "frame_indices", {"3"});
  refused({{"prompt", "x"}, {"frame_indices", {0}}}, "frame_indices", {"picture"});
  refused({{"prompt", "x"}, {"input_references", {pixel(), pixel()}}}, "input_references[1]", {"task"});
  refused({{"prompt", "x"}, {"task", "fl2va"}, {"input_references", {pixel(), pixel(), pixel()}}}, "input_references[2]", {"3 pictures"});
}

TEST_F(NativeMedia, VllmReferences) {
  const Job job = made(form("/v1/videos", {{"prompt", "x"},
                                           {"width", "1344"},
                                           {"height", "768"},
                                           {"fps", "24"},
                                           {"extra_params", R"({"task":"ref2va","duration":15.0})"},
                                           {"input_reference", file("wide.png")},
                                           {"audio_reference", json{{"audio_url", sound()}}.dump()}}));
  EXPECT_EQ(job.plan.mode, "ref2va");
  ASSERT_EQ(job.spec.request.references.size(), 2u);
  EXPECT_EQ(job.spec.request.references[0].kind, Kind::image);
  EXPECT_EQ(job.spec.request.references[1].kind, Kind::audio);
  const Job mixed = made(form("/v1/videos", {{"prompt", "x"},
                                             {"aspect_ratio", "adaptive"},
                                             {"short_edge", "768"},
                                             {"extra_params", R"({"task":"ref2va"})"},
                                             {"input_references", file("clip.mp4")},
                                             {"input_references", file("sound.wav")},
                                             {"input_references", file("tall.png")}}));
  ASSERT_EQ(mixed.spec.request.references.size(), 3u);
  EXPECT_EQ(mixed.spec.request.references[0].kind, Kind::video);
  EXPECT_EQ(mixed.spec.request.references[1].kind, Kind::audio);
  EXPECT_EQ(mixed.spec.request.references[2].kind, Kind::image);
  EXPECT_EQ(mixed.plan.width, 1344);
  refused({{"prompt", "x"}, {"input_reference", pixel()}, {"task", "t2va"}}, "task", {"no pictures"});
}

TEST_F(NativeMedia, SglangConditions) {
  const auto condition = [](const char* type, const std::string& uri, const char* role) {
    return json{{"type", type}, {"uri", uri}, {"role", role}};
  };
  json last = condition("image", pixel(), "keyframe");
  last["frame_index"] = -1;
  const Job key = accepted({{"prompt", "x"},
                            {"task", "fl2va"},
                            {"conditions", json::array({last})},
                            {"target", {{"short_edge", 768}, {"aspect_ratio", "auto"}, {"duration_seconds", 8}}},
                            {"seed", 0}});
  EXPECT_FALSE(key.spec.request.last_frame.empty());
  EXPECT_EQ(key.plan.width, 768);
  const Job ref = made(form(
      "/v1/videos",
      {{"prompt", "x"},
       {"task", "ref2va"},
       {"clip", file("clip.mp4")},
       {"conditions", json::array({condition("video_audio", "form:clip", "reference"), condition("audio", sound(), "reference")}).dump()},
       {"target", R"({"short_edge": 768, "aspect_ratio": "auto", "duration_seconds": 5})"}}));
  ASSERT_EQ(ref.spec.request.references.size(), 2u);
  EXPECT_EQ(ref.spec.request.references[0].kind, Kind::video);
  EXPECT_FALSE(ref.spec.request.references[0].silent);
  const auto wrong = [&](json c, const std::string& field) {
    refused({{"prompt", "x"}, {"conditions", json::array({std::move(c)})}}, "conditions[0]" + field);
  };
  wrong(5, "");
  wrong(condition("picture", pixel(), "keyframe"), ".type");
  wrong(condition("video", pixel(), "keyframe"), ".type");
  wrong(condition("image", pixel(), "start"), ".role");
  wrong({{"type", "image"}, {"uri", pixel()}}, ".role");
  wrong({{"type", "image"}, {"role", "keyframe"}}, ".uri");
  json odd = condition("image", pixel(), "keyframe");
  odd["frame_index"] = 5;
  wrong(odd, ".frame_index");
  odd["frame_index"] = 0;
  odd["start_time_seconds"] = 1.5;
  wrong(odd, ".start_time_seconds");
  refused({{"prompt", "x"}, {"conditions", json::array({last, last})}}, "conditions[1].uri", {"twice"});
}

TEST_F(NativeMedia, ShortEdgeFollowsThePicture) {
  const Job job = made(form("/v1/videos", {{"prompt", "x"}, {"input_reference", file("tall.png")}, {"short_edge", "96"}}));
  EXPECT_EQ(job.plan.width, 96);
  EXPECT_GT(job.plan.height, 150);
}

TEST_F(NativeMedia, OwnFields) {
  const Job refs =
      accepted({{"prompt", "x"},
                {"references",
                 json::array({json{{"type", "image"}, {"uri", pixel()}}, json{{"type", "video"}, {"uri", sound()}, {"sound", sound()}}})}});
  EXPECT_FALSE(refs.spec.request.references[1].sound.empty());
  const Job retake = made(
      form("/v1/videos",
           {{"prompt", "x"}, {"c", file("clip.mp4")}, {"retake", R"({"video": "form:c", "frames": [[0, 17]], "seconds": [[0.5, 1]]})"}}));
  EXPECT_EQ(retake.plan.mode, "retake");
  EXPECT_EQ(retake.spec.request.retake.frames[0][1], 17);
  EXPECT_EQ(retake.spec.request.retake.seconds[0][0], 0.5);
  EXPECT_EQ(accepted({{"prompt", "x"}, {"video_for", sound()}}).plan.mode, "video_for_sound");
  for (const char* frames : {"[[5, 5]]", "[[-1, 5]]", "[5]", "[[0.5, 2]]", "[[1, 2, 3]]"})
    expect_refusal(
        form("/v1/videos",
             {{"prompt", "x"}, {"c", file("clip.mp4")}, {"retake", std::string(R"({"video": "form:c", "frames": )") + frames + "}"}}),
        "retake.frames", {});
  refused({{"prompt", "x"}, {"first_frame", pixel()}, {"video_for", sound()}}, "video_for", {"combined"});
}

TEST_F(NativeMedia, InputsOfAVideoCanBeUsedAgain) {
  const Job job = made(form("/v1/videos", {{"prompt", "x"}, {"input_reference", file("wide.png")}, {"last_frame", pixel()}}));
  const json v = video(job.id);
  EXPECT_EQ(v["inputs"]["first_frame"], "/v1/videos/" + job.id + "/inputs/first_frame");
  const auto shown = get(v["inputs"]["first_frame"]);
  EXPECT_EQ(*read_file(std::get<http::FileBody>(shown.body).file), *read_file(folder_.path() / "wide.png"));
  const Job again = accepted(v["request"]);
  EXPECT_EQ(*read_file(again.spec.request.first_frame), *read_file(folder_.path() / "wide.png"));
  EXPECT_FALSE(again.spec.request.last_frame.empty());
  EXPECT_EQ(get("/v1/videos/" + job.id + "/inputs/retake").status, 404);
  EXPECT_EQ(get("/v1/videos/" + job.id + "/inputs/references/0").status, 404);
  refused({{"prompt", "x"}, {"first_frame", "tritium:nobody/first_frame"}}, "first_frame", {"nobody"});
  refused({{"prompt", "x"}, {"first_frame", "tritium:" + job.id + "/../../x"}}, "first_frame", {"no input"});
}

}  // namespace
}  // namespace tritium::test
