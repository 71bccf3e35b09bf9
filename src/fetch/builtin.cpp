// The published sets of files. Sizes in bytes; a hash or size is left out where none is published, and is then learned from the server.
#include "fetch/manifest.h"

#include <fmt/format.h>

namespace tritium::fetch {
namespace {

constexpr const char* kOfficial = "MiniMaxAI/MiniMax-H3";
constexpr const char* kComfy = "Comfy-Org/MiniMax-H3";
constexpr const char* kDiffSynth = "DiffSynth-Studio/MiniMax-H3-NF4";

struct Known {
  const char* path;
  std::uint64_t bytes;
  const char* sha256;
};

ManifestFile file_of(const char* repo, std::string path, std::optional<std::uint64_t> bytes = {}, const char* sha256 = "") {
  ManifestFile out;
  out.path = std::move(path);
  out.bytes = bytes;
  out.sha256 = sha256;
  out.repo = repo;
  out.revision = "main";
  return out;
}

ManifestFile file_of(const char* repo, const Known& known) { return file_of(repo, known.path, known.bytes, known.sha256); }

ManifestFile optional_file(const char* repo, std::string path) {
  ManifestFile out = file_of(repo, std::move(path));
  out.optional = true;
  return out;
}

constexpr Known kFl2vaFullBf16{"diffusion_models/minimax_h3_fl2va_bf16.safetensors", 66280487368,
                               "907d4add438438ec1544f5240c3b38532ed934fe6be75677a6bbda2a6fdd6182"};
constexpr Known kRef2vaFullBf16{"diffusion_models/minimax_h3_ref2va_bf16.safetensors", 66280487368, ""};
constexpr Known kFl2vaBf16{"diffusion_models/minimax_h3_fl2va_pruned_bf16.safetensors", 40225724176,
                           "a32572fb90b5508b201ec7c2eddcc184b13ddfd3c6f6d2cf06a0b46535d541b4"};
constexpr Known kRef2vaBf16{"diffusion_models/minimax_h3_ref2va_pruned_bf16.safetensors", 40225724176,
                            "37c0da793e20ca735272ec2be655f08a2e10f97a3ec8fdfb40f5b39a736ed6fe"};
constexpr Known kFl2vaFp8{"diffusion_models/minimax_h3_fl2va_pruned_fp8_scaled.safetensors", 20958205608,
                          "12944c1f7791637e7de12208aef04da82bd26b95271b1b47d817364315ade993"};
constexpr Known kRef2vaFp8{"diffusion_models/minimax_h3_ref2va_pruned_fp8_scaled.safetensors", 20958205608,
                           "f86f2f79ebd2d76eb8eeb46091e83982e6ff51d255747e7b16e92834b392b8e9"};
constexpr Known kFl2vaInt8{"diffusion_models/minimax_h3_fl2va_pruned_int8_convrot.safetensors", 20970379616,
                           "e889202c41dafb67b10d67b97f0d8541508036a6090af23425a5c2615d03c47a"};
constexpr Known kRef2vaInt8{"diffusion_models/minimax_h3_ref2va_pruned_int8_convrot.safetensors", 20970379616,
                            "9255f52b6677845ad238f20dfaafa94727053694127ab7f255c048f0f9365779"};
constexpr Known kFl2vaFullInt8{"diffusion_models/minimax_h3_fl2va_int8_convrot.safetensors", 34038892334,
                               "7ad4c73e6e378b822ffd1629f27f632d3787d95f5e468e3af958f98c58df96a5"};
constexpr Known kRef2vaFullInt8{"diffusion_models/minimax_h3_ref2va_int8_convrot.safetensors", 34038894550, ""};
constexpr Known kTextBf16{"text_encoders/qwen3vl_32b_minimax_h3_bf16.safetensors", 51506295256,
                          "600d567f6a9629c8574e8e7041b199bdd9c59a986afa7906910a81919610607d"};
constexpr Known kTextInt8{"text_encoders/qwen3vl_32b_minimax_h3_int8_convrot.safetensors", 27141342152,
                          "bc2ced0fbea64757fa9acddccfc0b3f4819d1dcf1da6c124d690d368be283923"};
constexpr Known kTextNvfp4{"text_encoders/qwen3vl_32b_minimax_h3_nvfp4_awq.safetensors", 15687142551,
                           "35a88d51044231fe332301d7a62aa81e3f2cba62febeb446e2c1e3e0ef76f2c6"};
constexpr Known kVideoFp16{"vae/minimax_h3_video_vae_fp16.safetensors", 5207808496,
                           "7c1f131492e7eddacaac9069a61b81bdd39de5cc96561e677c5eab1cdce5e522"};
constexpr Known kVideoInt8{"vae/minimax_h3_video_vae_int8_convrot.safetensors", 2811065184,
                           "52a2c8c73583c86e4f41cdcce3a6ad0ea562987bc0bf3d60a0cef5f5c8e60c0e"};
constexpr Known kAudioFp32{"vae/minimax_h3_audio_vae_fp32.safetensors", 605254808,
                           "8e505d95dd1561d47abd43d4238fd40d9bb1ae9e147ed0a4cba778d76ae4db48"};
constexpr Known kTurboLora{"loras/minimax_h3_fl2v_turbo_8step_v1.0_comfyui_bf16.safetensors", 1956193000,
                           "2339acdf19bfe123f46b971ea35d367a84adb85de43627e1eceafa5a5b2b111e"};

constexpr Known kTokenizer[] = {{"tokenizer.json", 7032403, ""},
                                {"vocab.json", 2776833, ""},
                                {"merges.txt", 1671839, ""},
                                {"chat_template.json", 5499, ""},
                                {"tokenizer_config.json", 11003, ""}};
constexpr Known kProcessor[] = {{"preprocessor_config.json", 390, ""}, {"video_preprocessor_config.json", 385, ""}};

// `folder`: "" for the root of the repository, or "FL2VA/".
void add_tokenizer(Manifest& to, const std::string& folder) {
  for (const Known& known : kTokenizer) to.files.push_back(file_of(kOfficial, folder + "tokenizer/" + known.path, known.bytes));
  for (const Known& known : kProcessor) {
    to.files.push_back(file_of(kOfficial, folder + "processor/" + known.path, known.bytes));
    to.files.back().optional = true;
  }
}

Manifest empty(std::string name, std::string description) {
  Manifest out;
  out.name = std::move(name);
  out.description = std::move(description);
  out.base_urls = {"https://huggingface.co/{repo}/resolve/{revision}/{path}"};
  return out;
}

Manifest official(const char* name, const char* partition) {
  Manifest out = empty(name, fmt::format("official {} as released, bf16 shards", partition));
  const std::string root = std::string(partition) + "/";
  const auto add = [&](const std::string& path) { out.files.push_back(file_of(kOfficial, root + path)); };
  add("model_index.json");
  add_tokenizer(out, root);
  for (const char* part : {"transformer", "text_encoder"}) {
    add(fmt::format("{}/config.json", part));
    add(fmt::format("{}/model.safetensors.index.json", part));
  }
  for (const char* path : {"video_vae/source/config.json", "audio_vae/config.json"}) add(path);
  for (const char* path : {"video_vae/config.json", "audio_vae/config.yaml", "audio_vae/metadata.json"})
    out.files.push_back(optional_file(kOfficial, root + path));
  for (int i = 1; i <= 13; ++i) add(fmt::format("transformer/model-{:05}-of-00013.safetensors", i));
  for (int i = 1; i <= 14; ++i) add(fmt::format("text_encoder/model-{:05}-of-00014.safetensors", i));
  for (const char* path : {"video_vae/source/model.safetensors", "audio_vae/model.safetensors"}) add(path);
  return out;
}

Manifest comfy(std::string name, std::string description, std::initializer_list<Known> files) {
  Manifest out = empty(std::move(name), std::move(description));
  add_tokenizer(out, "");
  for (const Known& known : files) out.files.push_back(file_of(kComfy, known));
  return out;
}

Manifest diffsynth(std::string name, std::string description, const char* dit, std::uint64_t bytes) {
  Manifest out = empty(std::move(name), std::move(description));
  add_tokenizer(out, "");
  out.files.push_back(file_of(kDiffSynth, dit, bytes));
  out.files.push_back(file_of(kDiffSynth, "minimax-h3-text-encoder-nf4.safetensors", 15324775807));
  out.files.push_back(file_of(kDiffSynth, "video_vae_nf4.safetensors", 1613201536));
  out.files.push_back(file_of(kDiffSynth, "audio_vae_nf4.safetensors", 284004112));
  return out;
}

std::vector<Manifest> make() {
  std::vector<Manifest> out;
  out.push_back(official("official-fl2va", "FL2VA"));
  out.push_back(official("official-ref2va", "Ref2VA"));
  out.push_back(
      comfy("comfy-fl2va-small", "pruned FL2VA in int8, text encoder in nvfp4", {kFl2vaInt8, kTextNvfp4, kVideoInt8, kAudioFp32}));
  out.push_back(
      comfy("comfy-ref2va-small", "pruned Ref2VA in int8, text encoder in nvfp4", {kRef2vaInt8, kTextNvfp4, kVideoInt8, kAudioFp32}));
  out.push_back(comfy("comfy-fl2va-int8", "pruned FL2VA and text encoder in int8", {kFl2vaInt8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-ref2va-int8", "pruned Ref2VA and text encoder in int8", {kRef2vaInt8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-fl2va-fp8", "pruned FL2VA in fp8, text encoder in int8", {kFl2vaFp8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-ref2va-fp8", "pruned Ref2VA in fp8, text encoder in int8", {kRef2vaFp8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-fl2va-bf16", "pruned FL2VA and text encoder in bf16", {kFl2vaBf16, kTextBf16, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-ref2va-bf16", "pruned Ref2VA and text encoder in bf16", {kRef2vaBf16, kTextBf16, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-fl2va-full-int8", "full FL2VA and text encoder in int8", {kFl2vaFullInt8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(
      comfy("comfy-ref2va-full-int8", "full Ref2VA and text encoder in int8", {kRef2vaFullInt8, kTextInt8, kVideoFp16, kAudioFp32}));
  out.push_back(comfy("comfy-fl2va-full-bf16", "full FL2VA and text encoder in bf16", {kFl2vaFullBf16, kTextBf16, kVideoFp16, kAudioFp32}));
  out.push_back(
      comfy("comfy-ref2va-full-bf16", "full Ref2VA and text encoder in bf16", {kRef2vaFullBf16, kTextBf16, kVideoFp16, kAudioFp32}));
  out.push_back(
      diffsynth("diffsynth-fl2va-nf4", "pruned FL2VA, everything in nf4", "minimax-h3-fl2va-pruned-nf4.safetensors", 10483868433));
  out.push_back(
      diffsynth("diffsynth-ref2va-nf4", "pruned Ref2VA, everything in nf4", "minimax-h3-ref2va-pruned-nf4.safetensors", 10483868417));
  out.push_back(diffsynth("diffsynth-fl2va-full-nf4", "full FL2VA, everything in nf4", "minimax-h3-fl2va-nf4.safetensors", 17162138303));
  out.push_back(diffsynth("diffsynth-ref2va-full-nf4", "full Ref2VA, everything in nf4", "minimax-h3-ref2va-nf4.safetensors", 17162138284));
  out.push_back(empty("comfy-fl2v-turbo-lora", "LoRA for 8 steps, FL2VA"));
  out.back().files.push_back(file_of(kComfy, kTurboLora));
  return out;
}

}  // namespace

const std::vector<Manifest>& builtin_manifests() {
  static const std::vector<Manifest> all = make();
  return all;
}

}  // namespace tritium::fetch
