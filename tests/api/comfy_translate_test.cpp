// Graphs that are understood, and what they ask for.
#include "comfy_graphs.h"

namespace tritium::test {
namespace {

TEST(ComfyTranslate, TemplateTextToVideo) {
  const auto out = translated(prompt_of("comfy_t2v"));
  ASSERT_TRUE(out.work) << out.error->to_json().dump(1);
  const Request& r = out.work->request;
  EXPECT_EQ(r.prompt, "A red circle moves to the right on a blue background with a low tone.");
  EXPECT_EQ(r.width, 864);  // 16:9 with 0.4 megapixels, as the template's own table says
  EXPECT_EQ(r.height, 480);
  EXPECT_EQ(r.frames, 124);
  EXPECT_EQ(r.steps, 20);  // the switch is off
  EXPECT_EQ(r.seed, 757358688076805u);
  EXPECT_EQ(r.noise, "comfyui");
  EXPECT_TRUE(r.loras.empty());
  EXPECT_FALSE(r.video_shift);
  EXPECT_TRUE(out.node_errors.empty());
  ASSERT_EQ(out.work->outputs.size(), 1u);
  EXPECT_EQ(out.work->outputs[0].id, "92");
  EXPECT_EQ(out.work->outputs[0].subfolder, "video");
  EXPECT_EQ(out.work->outputs[0].prefix, "MiniMax_H3");
  EXPECT_EQ(out.work->stages.at("denoise"), "140:125");
  EXPECT_EQ(out.work->stages.at("text"), "140:131");
  EXPECT_EQ(out.work->stages.at("video"), "140:122");
  EXPECT_EQ(out.work->stages.at("audio"), "140:121");
  EXPECT_EQ(out.work->stages.at("write"), "92");
  EXPECT_TRUE(has_note(*out.work, "sampler_name", "res_multistep"));
  EXPECT_TRUE(has_note(*out.work, "unet_name", "minimax_h3_fl2va_pruned_int8_convrot.safetensors"));
}

TEST(ComfyTranslate, TemplateImageToVideo) {
  const Request r = request_of(prompt_of("comfy_i2v"));
  EXPECT_EQ(r.first_frame, "/files/mouse.png");
  EXPECT_TRUE(r.last_frame.empty());
  EXPECT_EQ(r.fit, Fit::stretch);  // as the node does it
  EXPECT_EQ(r.width, 648);         // multiples of 8; the planner raises them and says so
  EXPECT_EQ(r.height, 648);
  EXPECT_EQ(r.seed, 1u);
}

TEST(ComfyTranslate, TemplateReferenceToVideo) {
  const auto out = translated(prompt_of("comfy_r2v"));
  ASSERT_TRUE(out.work) << out.error->to_json().dump(1);
  const Request& r = out.work->request;
  ASSERT_EQ(r.references.size(), 2u);
  EXPECT_EQ(r.references[0].file, "/files/boy.png");
  EXPECT_EQ(r.references[1].file, "/files/dragon.png");
  EXPECT_FALSE(r.official_reference_size);
  EXPECT_EQ(r.prompt.rfind("Use <Picture 2>", 0), 0u);
  EXPECT_EQ(r.steps, 20);
}

TEST(ComfyTranslate, ShortFormWithKSampler) {
  const Request r = request_of(prompt_of("comfy_ksampler"));
  EXPECT_EQ(r.width, 96);
  EXPECT_EQ(r.frames, 22);
  EXPECT_EQ(r.steps, 2);
  EXPECT_EQ(r.seed, 7u);
}

TEST(ComfyTranslate, TurboSwitchTakesTheLoraAndItsSteps) {
  Json prompt = prompt_of("comfy_t2v");
  prompt["140:139"]["inputs"]["value"] = true;
  prompt["140:134"]["inputs"]["lora_name"] = "style.safetensors";
  prompt["140:134"]["inputs"]["strength_model"] = 0.8;
  const Request r = request_of(prompt);
  EXPECT_EQ(r.steps, 8);
  ASSERT_EQ(r.loras.size(), 1u);
  EXPECT_EQ(r.loras[0].file, "/loras/style.safetensors");
  EXPECT_DOUBLE_EQ(r.loras[0].strength, 0.8);
  prompt["140:134"]["inputs"]["strength_model"] = 0;
  EXPECT_TRUE(request_of(prompt).loras.empty());
}

TEST(ComfyTranslate, A25_OmittedInputsGetTheirStandards) {
  Json prompt = prompt_of("comfy_ksampler");
  for (const char* name : {"width", "height", "length"}) prompt["5"]["inputs"].erase(name);
  for (const char* name : {"sampler_name", "scheduler", "denoise", "cfg", "steps"}) prompt["7"]["inputs"].erase(name);
  for (const char* name : {"filename_prefix", "format", "codec"}) prompt["12"]["inputs"].erase(name);
  prompt["11"]["inputs"].erase("fps");
  prompt["1"]["inputs"].erase("weight_dtype");
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work) << out.error->to_json().dump(1);
  EXPECT_EQ(out.work->request.width, 1344);
  EXPECT_EQ(out.work->request.height, 768);
  EXPECT_EQ(out.work->request.frames, 124);
  EXPECT_EQ(out.work->request.steps, 20);
  EXPECT_EQ(out.work->outputs[0].subfolder, "video");
  EXPECT_EQ(out.work->outputs[0].prefix, "ComfyUI");
}

TEST(ComfyTranslate, A26_InputsByNameWhateverTheirOrder) {
  Json prompt = prompt_of("comfy_r2v");
  const Request before = request_of(prompt);
  Json reversed = Json::object();
  const Json inputs = prompt["136"]["inputs"];
  for (auto each = inputs.rbegin(); each != inputs.rend(); ++each) reversed[each.key()] = each.value();
  prompt["136"]["inputs"] = reversed;
  const Request after = request_of(prompt);
  EXPECT_EQ(after.prompt, before.prompt);
  EXPECT_EQ(after.width, before.width);
  EXPECT_EQ(after.height, before.height);
  ASSERT_EQ(after.references.size(), 2u);
  EXPECT_EQ(after.references[0].file, before.references[0].file);
}

TEST(ComfyTranslate, NumbersMayBeText) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["5"]["inputs"]["width"] = "128";
  prompt["5"]["inputs"]["height"] = 96.0;
  prompt["7"]["inputs"]["cfg"] = "1.0";
  prompt["7"]["inputs"]["seed"] = 18446744073709551615ull;
  const Request r = request_of(prompt);
  EXPECT_EQ(r.width, 128);
  EXPECT_EQ(r.seed, 18446744073709551615ull);
}

TEST(ComfyTranslate, ShiftsFromTheModel) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["20"] = {{"class_type", "MiniMaxH3SigmaShift"}, {"inputs", {{"model", {"1", 0}}, {"shift_video", 6.0}}}};
  prompt["7"]["inputs"]["model"] = {"20", 0};
  const Request r = request_of(prompt);
  EXPECT_EQ(r.video_shift, 6.0);
  EXPECT_EQ(r.audio_shift, 3.0);
}

TEST(ComfyTranslate, EasyCacheOfTheModel) {
  Json prompt = prompt_of("comfy_ksampler");
  EXPECT_FALSE(request_of(prompt).acceleration.any());
  prompt["20"] = {{"class_type", "EasyCache"}, {"inputs", {{"model", {"1", 0}}, {"reuse_threshold", 0.3}, {"end_percent", 0.9}}}};
  prompt["7"]["inputs"]["model"] = {"20", 0};
  const Request r = request_of(prompt);
  EXPECT_EQ(r.acceleration.easycache, 0.3);
  EXPECT_EQ(r.acceleration.easycache_start, 0.15);
  EXPECT_EQ(r.acceleration.easycache_end, 0.9);
}

TEST(ComfyTranslate, PlainTextWithAnEmptyLatent) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["5"] = {{"class_type", "CLIPTextEncode"}, {"inputs", {{"clip", {"2", 0}}, {"text", "waves"}}}};
  prompt["21"] = {{"class_type", "EmptyMiniMaxH3LatentAV"}, {"inputs", {{"width", 64}, {"height", 64}, {"length", 22}}}};
  prompt["7"]["inputs"]["latent_image"] = {"21", 0};
  const Request r = request_of(prompt);
  EXPECT_EQ(r.prompt, "waves");
  EXPECT_EQ(r.width, 64);
}

TEST(ComfyTranslate, UnreachedNodesAreNotLookedAt) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["50"] = {{"class_type", "KSampler"}, {"inputs", {{"cfg", 7.5}}}};
  prompt["51"] = {{"class_type", "LoadImage"}, {"inputs", {{"image", "missing"}}}};
  EXPECT_TRUE(translated(prompt).work);
}

TEST(ComfyTranslate, SeveralOutputsOfOneClip) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["13"] = {{"class_type", "VHS_VideoCombine"},
                  {"inputs", {{"images", {"9", 0}}, {"audio", {"10", 0}}, {"frame_rate", 24}, {"filename_prefix", "a/b/c"}}}};
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work);
  ASSERT_EQ(out.work->outputs.size(), 2u);
  EXPECT_EQ(out.work->outputs[1].class_type, "VHS_VideoCombine");
  EXPECT_EQ(out.work->outputs[1].subfolder, "a/b");
  const auto one = translated(prompt, {"13"});
  ASSERT_TRUE(one.work);
  ASSERT_EQ(one.work->outputs.size(), 1u);
  EXPECT_EQ(one.work->outputs[0].id, "13");
}

// As in ComfyUI: what is right is run, what is wrong is told.
TEST(ComfyTranslate, AWrongOutputDoesNotStopARightOne) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["13"] = {{"class_type", "VHS_VideoCombine"}, {"inputs", {{"images", {"9", 0}}, {"frame_rate", 30}}}};
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work);
  EXPECT_EQ(out.work->outputs.size(), 1u);
  ASSERT_TRUE(out.node_errors.contains("13"));
  EXPECT_EQ(out.node_errors["13"]["dependent_outputs"], Json::array({"13"}));
}

}  // namespace
}  // namespace tritium::test
