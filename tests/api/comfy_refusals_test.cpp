// Graphs that are refused, by node and input, in ComfyUI's words.
#include "comfy_graphs.h"

namespace tritium::test {
namespace {

Json changed(const std::string& node, const std::string& input, Json value) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt[node]["inputs"][input] = std::move(value);
  return prompt;
}

TEST(ComfyRefusals, ValuesThatCannotBeHonoured) {
  EXPECT_EQ(refusal_of(changed("7", "cfg", 4.5)),
            "7/cfg/custom_validation_failed: cfg: 4.5 is not offered: the model is distilled and knows no guidance; allowed is 1");
  EXPECT_EQ(refusal_of(changed("7", "denoise", 0.5)), "7/denoise/custom_validation_failed: denoise: 0.5 is not offered; allowed is 1");
  EXPECT_EQ(refusal_of(changed("7", "sampler_name", "dpmpp_sde")),
            "7/sampler_name/value_not_in_list: sampler_name: 'dpmpp_sde' not in ['euler', 'res_multistep']");
  EXPECT_EQ(refusal_of(changed("7", "scheduler", "beta")), "7/scheduler/value_not_in_list: scheduler: 'beta' not in ['simple']");
  EXPECT_EQ(refusal_of(changed("11", "fps", 30)),
            "11/fps/custom_validation_failed: fps: 30 is not offered: the model makes 24 frames per second; allowed is 24");
  EXPECT_EQ(refusal_of(changed("12", "codec", "av1")), "12/codec/value_not_in_list: codec: 'av1' not in ['auto', 'h264']");
  EXPECT_EQ(refusal_of(changed("2", "type", "flux")), "2/type/value_not_in_list: type: 'flux' not in ['minimax']");
  EXPECT_EQ(refusal_of(changed("5", "prompt", "a embedding:style b")).rfind("5/prompt/custom_validation_failed", 0), 0u);
}

// A stochastic sampler over-noises the sound; it is refused, not replaced.
TEST(ComfyRefusals, C4_StochasticSamplers) {
  for (const char* name : {"euler_ancestral", "dpmpp_2m_sde", "lcm", "ddpm"})
    EXPECT_NE(refusal_of(changed("7", "sampler_name", name)).find("value_not_in_list"), std::string::npos) << name;
}

TEST(ComfyRefusals, RangesAndTypes) {
  EXPECT_EQ(refusal_of(changed("5", "length", 3)), "5/length/value_smaller_than_min: length");
  EXPECT_EQ(refusal_of(changed("5", "width", 99999)), "5/width/value_bigger_than_max: width");
  EXPECT_EQ(refusal_of(changed("5", "width", "wide")), "5/width/invalid_input_type: width, 'wide'");
  EXPECT_EQ(refusal_of(changed("5", "height", {{"a", 1}})), "5/height/invalid_input_type: height, {\"a\":1}");
  EXPECT_EQ(refusal_of(changed("7", "seed", -1)), "7/seed/value_smaller_than_min: seed");
}

TEST(ComfyRefusals, Links) {
  EXPECT_EQ(refusal_of(changed("9", "samples", "8")), "9/samples/bad_linked_input: samples");
  EXPECT_EQ(refusal_of(changed("9", "samples", {"88", 0})), "9/samples/bad_linked_input: samples: there is no node '88'");
  EXPECT_EQ(refusal_of(changed("9", "samples", {"8", 5})), "9/samples/bad_linked_input: samples: LTXVSeparateAVLatent has outputs 0 to 1");
  EXPECT_EQ(refusal_of(changed("9", "samples", {"3", 0})),
            "9/samples/return_type_mismatch: samples, received_type(VAE) mismatch input_type(LATENT)");
  EXPECT_EQ(refusal_of(changed("9", "samples", {"8", 1})), "9/samples/custom_validation_failed: samples: holds only sound");
  EXPECT_EQ(refusal_of(changed("9", "samples", {"5", 1})),
            "9/samples/custom_validation_failed: samples: is empty; link the result of a sampler");
  Json prompt = prompt_of("comfy_ksampler");
  prompt["7"]["inputs"].erase("model");
  EXPECT_EQ(refusal_of(prompt), "7/model/required_input_missing: model");
}

TEST(ComfyRefusals, Cycles) {
  Json prompt = prompt_of("comfy_t2v");
  prompt["140:135"]["inputs"]["on_false"] = {"140:135", 0};
  EXPECT_EQ(refusal_of(prompt), "140:135//dependency_cycle: node '140:135' needs its own output");
  prompt = prompt_of("comfy_ksampler");
  prompt["12"]["inputs"]["video"] = {"12", 0};
  EXPECT_NE(refusal_of(prompt).find("return_type_mismatch"), std::string::npos);
}

TEST(ComfyRefusals, UnknownNodesAreAllNamed) {
  Json prompt = prompt_of("comfy_ksampler");
  prompt["90"] = {{"class_type", "PreviewImage"}, {"inputs", {{"images", {"9", 0}}}}};
  prompt["91"] = {{"class_type", "TeaCache"}, {"inputs", Json::object()}, {"_meta", {{"title", "Faster"}}}};
  const auto out = translated(prompt);
  ASSERT_FALSE(out.work);
  EXPECT_EQ(out.error->type, "missing_node_type");
  EXPECT_NE(out.error->message.find("'PreviewImage' (#90)"), std::string::npos);
  EXPECT_NE(out.error->message.find("'TeaCache' (#91)"), std::string::npos);
  EXPECT_EQ(out.error->node_errors["91"]["class_type"], "TeaCache");
  EXPECT_EQ(out.error->node_errors["91"]["errors"][0]["extra_info"]["node_title"], "Faster");
}

TEST(ComfyRefusals, DocumentsThatAreNoPrompt) {
  EXPECT_EQ(translated(Json::array()).error->type, "invalid_prompt");
  EXPECT_EQ(translated({{"nodes", Json::array()}, {"links", Json::array()}}).error->type, "invalid_prompt");
  EXPECT_EQ(translated({{"1", {{"inputs", Json::object()}}}}).error->type, "invalid_prompt");
  EXPECT_EQ(translated({{"1", 5}}).error->type, "invalid_prompt");
  EXPECT_EQ(translated(Json::object()).error->type, "prompt_no_outputs");
  Json prompt = prompt_of("comfy_ksampler");
  prompt.erase("12");
  EXPECT_EQ(translated(prompt).error->type, "prompt_no_outputs");
}

TEST(ComfyRefusals, MissingFilesAndLoras) {
  Json prompt = prompt_of("comfy_i2v");
  prompt["114"]["inputs"]["image"] = "missing.png";
  EXPECT_EQ(refusal_of(prompt),
            "114/image/custom_validation_failed: image: there is no uploaded file 'missing.png' (upload it with POST /upload/image)");
  prompt = prompt_of("comfy_t2v");
  prompt["140:139"]["inputs"]["value"] = true;
  EXPECT_EQ(refusal_of(prompt),
            "140:134/lora_name/custom_validation_failed: lora_name: 'minimax_h3_fl2v_turbo_8step_v1.0_comfyui_bf16.safetensors' not in "
            "['style.safetensors']");
}

TEST(ComfyRefusals, A12_NamesThatLeadOutOfTheFolder) {
  for (const char* name : {"../../etc/passwd", "/etc/x", "a/../../b", "..", ".hidden", "a\\b", "x/.ssh/y"})
    EXPECT_EQ(refusal_of(changed("12", "filename_prefix", name)).rfind("12/filename_prefix/custom_validation_failed", 0), 0u) << name;
}

TEST(ComfyRefusals, TwoClipsInOnePrompt) {
  Json prompt = prompt_of("comfy_ksampler");
  for (const char* id : {"7", "9"}) prompt[std::string("b") + id] = prompt[id];
  prompt["b7"]["inputs"]["seed"] = 8;
  prompt["b9"]["inputs"]["samples"] = {"b7", 0};
  prompt["b12"] = {{"class_type", "VHS_VideoCombine"}, {"inputs", {{"images", {"b9", 0}}, {"frame_rate", 24}}}};
  const auto out = translated(prompt);
  ASSERT_TRUE(out.work);
  EXPECT_EQ(out.work->request.seed, 7u);
  ASSERT_TRUE(out.node_errors.contains("b12"));
  EXPECT_NE(out.node_errors["b12"]["errors"][0]["details"].get<std::string>().find("one prompt makes one clip"), std::string::npos);
}

TEST(ComfyRefusals, SchedulesThatDisagree) {
  Json prompt = prompt_of("comfy_t2v");
  prompt["s"] = {{"class_type", "MiniMaxH3SigmaShift"}, {"inputs", {{"model", {"140:127", 0}}, {"shift_video", 6}}}};
  prompt["140:126"]["inputs"]["model"] = {"s", 0};
  EXPECT_NE(refusal_of(prompt).find("140:125/sigmas"), std::string::npos);
  prompt["140:124"]["inputs"]["model"] = {"s", 0};
  EXPECT_EQ(request_of(prompt).video_shift, 6.0);
}

TEST(ComfyRefusals, HostileGraphsEnd) {
  Json prompt = prompt_of("comfy_ksampler");
  std::string before = "1";
  for (int i = 0; i < 1500; ++i) {
    const std::string id = "m" + std::to_string(i);
    prompt[id] = {{"class_type", "MiniMaxH3SigmaShift"}, {"inputs", {{"model", {before, 0}}}}};
    before = id;
  }
  prompt["7"]["inputs"]["model"] = {before, 0};
  EXPECT_NE(refusal_of(prompt).find("custom_validation_failed"), std::string::npos);
  for (int i = 0; i < 1500; ++i) prompt["x" + std::to_string(i)] = prompt["1"];
  EXPECT_EQ(translated(prompt).error->type, "invalid_prompt");
}

}  // namespace
}  // namespace tritium::test
