// Keyframes, guides and references.
#include "comfy_graphs.h"

namespace tritium::test {
namespace {

Json node(const std::string& type, Json inputs) { return {{"class_type", type}, {"inputs", std::move(inputs)}}; }

TEST(ComfyReferences, BothKeyframes) {
  Json prompt = prompt_of("comfy_i2v");
  prompt["116"] = node("LoadImage", {{"image", "end.png"}});
  prompt["105:131"]["inputs"]["last_frame"] = {"116", 0};
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work);
  EXPECT_EQ(out.work->request.first_frame, "/files/mouse.png");
  EXPECT_EQ(out.work->request.last_frame, "/files/end.png");
  EXPECT_EQ(out.work->request.fit, Fit::stretch);
  EXPECT_TRUE(has_note(*out.work, "last_frame", "cut to the canvas"));
}

TEST(ComfyReferences, TheLastFrameAloneIsCut) {
  Json prompt = prompt_of("comfy_i2v");
  prompt["105:131"]["inputs"].erase("first_frame");
  prompt["105:131"]["inputs"]["last_frame"] = {"114", 0};
  const Request r = request_of(prompt);
  EXPECT_TRUE(r.first_frame.empty());
  EXPECT_EQ(r.last_frame, "/files/mouse.png");
  EXPECT_EQ(r.fit, Fit::cover);
}

TEST(ComfyReferences, GuidesAtTheEnds) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["30"] = node("LoadImage", {{"image", "a.png"}});
  prompt["31"] =
      node("MiniMaxH3AddGuide", {{"positive", {"5", 0}}, {"latent", {"5", 1}}, {"vae", {"3", 0}}, {"image", {"30", 0}}, {"frame_idx", 0}});
  prompt["32"] = node("MiniMaxH3AddGuide",
                      {{"positive", {"31", 0}}, {"latent", {"5", 1}}, {"vae", {"3", 0}}, {"image", {"30", 0}}, {"frame_idx", 21}});
  prompt["7"]["inputs"]["positive"] = {"32", 0};
  const Request r = request_of(prompt);
  EXPECT_EQ(r.first_frame, "/files/a.png");
  EXPECT_EQ(r.last_frame, "/files/a.png");
  EXPECT_EQ(r.fit, Fit::cover);
  prompt["32"]["inputs"]["frame_idx"] = -1;
  EXPECT_EQ(request_of(prompt).last_frame, "/files/a.png");
  prompt["32"]["inputs"]["frame_idx"] = 7;
  EXPECT_EQ(refusal_of(prompt),
            "32/frame_idx/custom_validation_failed: frame_idx: 7 is not offered; allowed are 0 (first frame) and -1 or 21 (last frame)");
  prompt["32"]["inputs"]["frame_idx"] = 0;
  EXPECT_EQ(refusal_of(prompt), "32/frame_idx/custom_validation_failed: frame_idx: the first frame is already given");
}

TEST(ComfyReferences, VideosWithTheirSounds) {
  Json prompt = prompt_of("comfy_r2v");
  prompt["40"] = node("LoadVideo", {{"file", "dance.mp4"}});
  prompt["41"] = node("GetVideoComponents", {{"video", {"40", 0}}});
  prompt["42"] = node("LoadAudio", {{"audio", "voice.wav"}});
  Json& inputs = prompt["136"]["inputs"];
  inputs["ref_videos.ref_video_0"] = {"41", 0};
  inputs["ref_audios.ref_audio_0"] = {"42", 0};
  Request r = request_of(prompt);
  ASSERT_EQ(r.references.size(), 4u);
  EXPECT_EQ(r.references[2].kind, ReferenceInput::Kind::video);
  EXPECT_EQ(r.references[2].file, "/files/dance.mp4");
  EXPECT_TRUE(r.references[2].silent);
  EXPECT_EQ(r.references[3].kind, ReferenceInput::Kind::audio);
  inputs["ref_video_audios.ref_video_audio_0"] = {"41", 1};
  r = request_of(prompt);
  EXPECT_FALSE(r.references[2].silent);
  EXPECT_TRUE(r.references[2].sound.empty());
  inputs["ref_video_audios.ref_video_audio_0"] = {"42", 0};
  EXPECT_EQ(request_of(prompt).references[2].sound, "/files/voice.wav");
  inputs["ref_video_audios.ref_video_audio_1"] = {"42", 0};
  EXPECT_EQ(refusal_of(prompt),
            "136/ref_video_audios.ref_video_audio_1/custom_validation_failed: ref_video_audios.ref_video_audio_1: there is no ref_video_1 "
            "that it belongs to");
}

// Versions before 0.35 had other names of the inputs, and nested objects appear too.
TEST(ComfyReferences, A26_OlderNamesOfInputs) {
  Json prompt = prompt_of("comfy_r2v");
  Json& inputs = prompt["136"]["inputs"];
  inputs.erase("ref_images.ref_image_0");
  inputs.erase("ref_images.ref_image_1");
  inputs["ref_image_1"] = {"139", 0};
  inputs["ref_image_0"] = {"137", 0};
  Request r = request_of(prompt);
  ASSERT_EQ(r.references.size(), 2u);
  EXPECT_EQ(r.references[0].file, "/files/boy.png");
  inputs.erase("ref_image_0");
  inputs.erase("ref_image_1");
  inputs["ref_images"] = {{"ref_image_0", {"139", 0}}};
  r = request_of(prompt);
  ASSERT_EQ(r.references.size(), 1u);
  EXPECT_EQ(r.references[0].file, "/files/dragon.png");
}

TEST(ComfyReferences, LargestSizeIsNoted) {
  Json prompt = prompt_of("comfy_r2v");
  prompt["136"]["inputs"]["ref_image_size"] = "max";
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work);
  EXPECT_TRUE(out.work->request.official_reference_size);
  EXPECT_TRUE(has_note(*out.work, "ref_image_size", "max"));
}

TEST(ComfyReferences, WhatOnlyTheTextEncoderWouldSeeIsRefused) {
  Json prompt = prompt_of("comfy_r2v");
  prompt["60"] = node("MiniMaxH3TextEncoderOnlyReference", {{"image", {"137", 0}}});
  prompt["136"]["inputs"]["ref_images.ref_image_0"] = {"60", 0};
  EXPECT_EQ(refusal_of(prompt).rfind("60/image/custom_validation_failed: image: not offered", 0), 0u);
  prompt = prompt_of("comfy_r2v");
  prompt["136"]["inputs"].erase("vae");
  EXPECT_EQ(
      refusal_of(prompt).rfind("136/ref_images.ref_image_0/custom_validation_failed: ref_images.ref_image_0: needs the input 'vae'", 0),
      0u);
}

TEST(ComfyReferences, PicturesOfAClipAreNoReference) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["70"] =
      node("MiniMaxH3ReferenceToVideo", {{"clip", {"2", 0}}, {"vae", {"3", 0}}, {"prompt", "x"}, {"ref_images.ref_image_0", {"9", 0}}});
  prompt["71"] =
      node("KSampler", {{"model", {"1", 0}}, {"positive", {"70", 0}}, {"negative", {"6", 0}}, {"latent_image", {"70", 1}}, {"cfg", 1}});
  prompt["72"] = node("VAEDecode", {{"samples", {"71", 0}}, {"vae", {"3", 0}}});
  prompt["12"] = node("VHS_VideoCombine", {{"images", {"72", 0}}, {"frame_rate", 24}});
  EXPECT_EQ(refusal_of(prompt),
            "70/ref_images.ref_image_0/custom_validation_failed: ref_images.ref_image_0: needs a picture from LoadImage, not the IMAGE of "
            "another node");
}

}  // namespace
}  // namespace tritium::test
