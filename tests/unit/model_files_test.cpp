// Finding a model's parts in every layout, the rule for several candidates, and what is refused.
#include "pipeline/convert_model.h"
#include "pipeline/model_config.h"
#include "pipeline/model_info.h"
#include "pipeline/model_json.h"
#include "support/model_copy.h"
#include "unit/model_layouts.h"
#include "weights/vae_names.h"

#include <cstdlib>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

void expect_says(const Error& error, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(error.code, ErrorCode::model);
  for (const std::string_view part : parts) EXPECT_NE(error.text().find(part), std::string::npos) << part << " is not in: " << error.text();
}

ModelInfo require(Result<ModelInfo> model) {
  if (!model.ok()) ADD_FAILURE() << model.error().text();
  return model.ok() ? std::move(*model) : ModelInfo{};
}

// Every tensor of the official file has the same values through the other part.
void expect_same_weights(const WeightPart& official, const WeightPart& other, const std::string& what) {
  for (const auto& [name, tensor] : official.tensors().all()) {
    if (name == "rope.inv_freq" || name == "decoder.mask_token") continue;
    const auto expected = official.read_f32(name), values = other.read_f32(name);
    ASSERT_TRUE(expected.ok()) << expected.error().text();
    ASSERT_TRUE(values.ok()) << what << ": " << values.error().text();
    EXPECT_TRUE(*values == *expected) << what << ": " << name;
  }
}

void expect_same_model(const ModelInfo& a, const ModelInfo& b, const std::string& what) {
  ASSERT_TRUE(a.dit && b.dit) << what;
  expect_same_weights(*a.dit, *b.dit, what);
  expect_same_weights(*a.text, *b.text, what);
  expect_same_weights(*a.video_vae, *b.video_vae, what);
  expect_same_weights(*a.audio_vae, *b.audio_vae, what);
  EXPECT_EQ(a.video_vae_config.latents_mean, b.video_vae_config.latents_mean);
  EXPECT_EQ(a.dit_config.rope_frequencies, b.dit_config.rope_frequencies);
}

ModelInfo demo() { return require(open_model(fs::path(TRITIUM_SOURCE_DIR) / "models/demo")); }

class ModelFolders : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path(const std::string& name = "") const { return folder_.path() / name; }
  TempFolder folder_;
};

TEST_F(ModelFolders, ComfyUIFolders) {
  make_comfy_folder(path("ComfyUI/models"));
  for (const char* root : {"ComfyUI", "ComfyUI/models"}) {
    const ModelInfo model = require(open_model(path(root)));
    EXPECT_EQ(model.partition, Partition::fl2va);
    EXPECT_EQ(model.dit_layout, DitLayout::plain);
    expect_same_model(demo(), model, root);
    EXPECT_EQ(model.tokenizer().filename(), "tokenizer");
  }
  // The file of the transformer alone: the rest is in the folders beside its own.
  const ModelInfo model = require(open_model(path("ComfyUI/models/diffusion_models/h3_fl2va_bf16.safetensors")));
  expect_same_model(demo(), model, "file");
  const auto setup = read_vision_setup(model);
  EXPECT_FALSE(setup.ok()) << "limits of the small model are in no file here and not those of the released one";
}

TEST_F(ModelFolders, DiffusersTreeAndDiffSynthNames) {
  write_tensors(diffusers_dit(), path("transformer/diffusion_pytorch_model.safetensors"));
  folder_.write("model_index.json", R"({"_minimax_h3": {"partition": "fl2va"}})");
  write_tensors(repacked_text(), path("text_encoder/model.safetensors"));
  write_tensors(diffusers_video_vae(), path("vae/diffusion_pytorch_model.safetensors"));
  write_tensors(audio_vae(), path("audio_vae/model.safetensors"));
  fs::copy(demo_part("tokenizer"), path("tokenizer"), fs::copy_options::recursive);
  const ModelInfo model = require(open_model(path()));
  EXPECT_EQ(model.dit_layout, DitLayout::diffusers);
  expect_same_model(demo(), model, "diffusers");

  write_tensors(diffsynth_video_vae(), path("video_vae_nf4.safetensors"));
  ModelSelection selection;
  selection.video_vae = path("video_vae_nf4.safetensors");
  expect_same_model(demo(), require(open_model(path(), selection)), "DiffSynth");
}

TEST_F(ModelFolders, HuggingFaceCache) {
  const fs::path repository = path("hub/models--MiniMaxAI--MiniMax-H3");
  fs::create_directories(repository / "refs");
  for (const char* revision : {"aaaa", "bbbb"}) fs::create_directories(repository / "snapshots" / revision);
  fs::create_directory_symlink(fs::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA", repository / "snapshots/bbbb/FL2VA");
  std::ofstream(repository / "refs/main") << "bbbb\n";
  for (const fs::path& root : {path("hub"), repository, repository / "snapshots/bbbb"}) {
    const ModelInfo model = require(open_model(root));
    expect_same_model(demo(), model, root.string());
    EXPECT_NE(model.root.string().find("bbbb"), std::string::npos);
  }
  // Its tokenizer serves weights that come without one; HF_HOME says where it is.
  make_comfy_folder(path("models"));
  fs::remove_all(path("models/tokenizer"));
  const std::string home = ::getenv("HOME") == nullptr ? "" : ::getenv("HOME");
  ::setenv("HOME", path().c_str(), 1);
  ::unsetenv("HF_HOME");
  ::unsetenv("HF_HUB_CACHE");
  const auto none = open_model(path("models"));
  ASSERT_FALSE(none.ok());
  expect_says(none.error(), {"no tokenizer", "--tokenizer", "vocab.json"});
  ::setenv("HF_HOME", path().c_str(), 1);
  const ModelInfo model = require(open_model(path("models")));
  EXPECT_NE(model.tokenizer().string().find("bbbb"), std::string::npos);
  ::unsetenv("HF_HOME");
  ::setenv("HOME", home.c_str(), 1);
  ModelSelection selection;
  selection.tokenizer = demo_part("tokenizer");
  EXPECT_EQ(require(open_model(path("models"), selection)).tokenizer(), selection.tokenizer);
}

TEST_F(ModelFolders, CandidatesAndTheRule) {
  make_comfy_folder(path());
  QuantFile wide = plain_dit();
  for (auto& [name, tensor] : wide.tensors) {
    if (tensor.dtype != "BF16") continue;
    std::string bytes;
    for (std::size_t i = 0; i < tensor.bytes.size(); i += 2) bytes += std::string(2, '\0') + tensor.bytes.substr(i, 2);
    tensor.dtype = "F32";
    tensor.bytes = std::move(bytes);
  }
  write_tensors(wide, path("diffusion_models/h3_fl2va_fp32.safetensors"));
  const auto chosen = [&](std::uint64_t memory, const ModelSelection& selection = {}) {
    const auto files = find_model_files(path(), selection, memory);
    EXPECT_TRUE(files.ok()) << (files.ok() ? "" : files.error().text());
    return files.ok() ? files->dit : ChosenPart{};
  };
  const ChosenPart largest = chosen(kPlenty);
  EXPECT_EQ(largest.file.path.filename(), "h3_fl2va_fp32.safetensors");
  EXPECT_NE(largest.why.find("largest that fits"), std::string::npos);
  ASSERT_EQ(largest.alternatives.size(), 1u);
  EXPECT_NE(largest.alternatives.front().find("h3_fl2va_bf16.safetensors: BF16"), std::string::npos) << largest.alternatives.front();
  EXPECT_EQ(chosen(largest.file.identity.bytes - 1).file.path.filename(), "h3_fl2va_bf16.safetensors");
  const ChosenPart smallest = chosen(1);
  EXPECT_EQ(smallest.file.path.filename(), "h3_fl2va_bf16.safetensors");
  EXPECT_NE(smallest.why.find("none fits"), std::string::npos);

  fs::create_directory_symlink(fs::path(TRITIUM_SOURCE_DIR) / "models/demo/FL2VA", path("FL2VA"));
  const auto official = find_model_files(path(), {}, kPlenty);
  ASSERT_TRUE(official.ok());
  EXPECT_EQ(official->dit.why, "in the official tree");
  for (const ChosenPart* part : {&official->dit, &official->text_encoder, &official->video_vae, &official->audio_vae})
    EXPECT_EQ(part->file.tree, path("FL2VA"));
  EXPECT_EQ(official->tokenizer, path("FL2VA/tokenizer"));

  ModelSelection named;
  named.dit = path("diffusion_models/h3_fl2va_bf16.safetensors");
  EXPECT_EQ(chosen(kPlenty, named).why, "named with --dit");
  named.dit = path("text_encoders/qwen.safetensors");
  const auto wrong = find_model_files(path(), named, kPlenty);
  ASSERT_FALSE(wrong.ok());
  expect_says(wrong.error(), {"dit:", "is no diffusion transformer", "text encoder"});
}

TEST_F(ModelFolders, PartitionsAreProvenOrRefused) {
  make_comfy_folder(path(), "ref2va");
  EXPECT_EQ(require(open_model(path())).partition, Partition::ref2va);
  fs::copy(path("diffusion_models/h3_ref2va_bf16.safetensors"), path("diffusion_models/h3_fl2va_bf16.safetensors"));
  EXPECT_EQ(require(open_model(path())).partition, Partition::fl2va);
  ModelSelection selection;
  selection.preferred = Partition::ref2va;
  EXPECT_EQ(require(open_model(path(), selection)).partition, Partition::ref2va);
  selection.preferred = Partition::fl2va;
  selection.partition = Partition::ref2va;
  EXPECT_EQ(require(open_model(path(), selection)).files.dit.file.path.filename(), "h3_ref2va_bf16.safetensors");
  // Asked for what is not there.
  fs::remove(path("diffusion_models/h3_ref2va_bf16.safetensors"));
  const auto refused = open_model(path(), selection);
  ASSERT_FALSE(refused.ok());
  expect_says(refused.error(), {"partition:", "is the FL2VA model", "--partition asks for Ref2VA"});
  // A name that says nothing, and names that contradict each other.
  fs::rename(path("diffusion_models/h3_fl2va_bf16.safetensors"), path("diffusion_models/h3.safetensors"));
  const auto unknown = open_model(path());
  ASSERT_FALSE(unknown.ok());
  expect_says(unknown.error(), {"cannot tell whether", "nothing says which", "--partition"});
  EXPECT_EQ(require(open_model(path(), selection)).partition, Partition::ref2va);
  fs::create_directories(path("Ref2VA"));
  fs::rename(path("diffusion_models/h3.safetensors"), path("Ref2VA/h3_fl2va.safetensors"));
  const auto conflict = open_model(path());
  ASSERT_FALSE(conflict.ok());
  expect_says(conflict.error(), {"cannot tell whether", "FL2VA: its name", "Ref2VA: the folder", "--partition"});
}

TEST_F(ModelFolders, QkvOrdersAreProvenOrRefused) {
  const ModelCopy model;
  model.remove("transformer/config.json");
  const auto doubtful = open_model(model.path());
  ASSERT_FALSE(doubtful.ok());
  expect_says(doubtful.error(), {"cannot tell the order", "--qkv-order"});
  ModelSelection selection;
  selection.qkv_order = DitLayout::interleaved;
  expect_same_model(demo(), require(open_model(model.path(), selection)), "said");
  selection.qkv_order = DitLayout::plain;
  const ModelInfo wrong = require(open_model(model.path(), selection));
  const std::string name = "blocks.0.attn.qkv_proj.weight";
  EXPECT_FALSE(*wrong.dit->read_f32(name) == *demo().dit->read_f32(name));
  const ModelCopy single;  // one file with the official configuration beside it
  single.remove("transformer/model.safetensors.index.json");
  EXPECT_FALSE(open_model(single.path()).ok());
}

TEST_F(ModelFolders, QkvOrdersThatTheFileDisprovesAreRefused) {
  const auto expect_refused = [&](const fs::path& model, DitLayout said, std::initializer_list<std::string_view> parts) {
    ModelSelection selection;
    selection.qkv_order = said;
    for (const Error& error : {open_model(model, selection).error(), open_convert_model(model, {PartKind::dit}, selection).error()}) {
      EXPECT_EQ(error.code, ErrorCode::usage);
      EXPECT_EQ(error.field, "qkv-order");
      for (const std::string_view part : parts) EXPECT_NE(error.text().find(part), std::string::npos) << part << " in: " << error.text();
    }
    selection.qkv_order = said == DitLayout::plain ? DitLayout::interleaved : DitLayout::plain;
    expect_same_model(demo(), require(open_model(model, selection)), "the order it has");
  };
  expect_refused(fs::path(TRITIUM_SOURCE_DIR) / "models/demo", DitLayout::plain, {"interleaved", "official config.json", "says plain"});
  make_comfy_folder(path());
  const fs::path file = path("diffusion_models/h3_fl2va_bf16.safetensors");
  expect_refused(path(), DitLayout::interleaved, {"has plain", "tritium convert", "says interleaved"});
  QuantFile marked = plain_dit();
  marked.metadata["tritium.qkv_order"] = "plain";
  write_tensors(marked, file);
  expect_refused(path(), DitLayout::interleaved, {"tritium.qkv_order"});
  write_tensors(diffusers_dit(), file);
  expect_refused(path(), DitLayout::interleaved, {"separate to_q"});
}

TEST_F(ModelFolders, WhatIsThereButCannotBeUsed) {
  make_comfy_folder(path());
  fs::remove(path("vae/video.safetensors"));
  auto missing = open_model(path());
  ASSERT_FALSE(missing.ok());
  expect_says(missing.error(), {"no video VAE", "--video-vae"});
  folder_.write("vae/video_vae.safetensors", "short");
  missing = open_model(path());
  ASSERT_FALSE(missing.ok());
  expect_says(missing.error(), {"video VAE: ", "video_vae.safetensors"});
  fs::remove(path("vae/video_vae.safetensors"));
  folder_.write("vae/video_vae.pt", std::string("PK\x03\x04") + std::string(64, 'x'));
  missing = open_model(path());
  ASSERT_FALSE(missing.ok());
  expect_says(missing.error(), {"pickle", "video_vae.pt"});
  folder_.write("vae/video_vae-00001-of-00002.safetensors", "x");
  fs::remove(path("vae/video_vae.pt"));
  missing = open_model(path());
  ASSERT_FALSE(missing.ok());
  expect_says(missing.error(), {"shard whose index file is missing"});
  QuantFile nunchaku;
  nunchaku.add_floats("transformer_blocks.0.attn.smooth_factor", {2}, {1, 2});
  write_tensors(nunchaku, path("svd.safetensors"));
  const auto refused = identify(path("svd.safetensors"));
  ASSERT_FALSE(refused.ok());
  expect_says(refused.error(), {"Nunchaku", "svd.safetensors", "not supported"});
}

TEST_F(ModelFolders, LinksInCirclesAndManyFiles) {
  make_comfy_folder(path("models"));
  fs::create_directory_symlink(path("models"), path("models/vae/again"));
  fs::create_directory_symlink("..", path("models/diffusion_models/up"));
  const auto scanned = scan_model_folder(path("models"), std::nullopt);
  ASSERT_TRUE(scanned.ok());
  EXPECT_EQ(scanned->candidates.size(), 4u) << "every folder once";
  EXPECT_EQ(require(open_model(path("models"))).partition, Partition::fl2va);
  fs::create_directories(path("models/a"));
  for (int i = 0; i < kScanEntries; ++i) std::ofstream(path("models/a") / std::to_string(i));
  const auto many = scan_model_folder(path("models"), std::nullopt);
  ASSERT_TRUE(many.ok());
  ASSERT_FALSE(many->notes.empty());
  EXPECT_NE(many->notes.front().find("stopped after 10000"), std::string::npos);
}

TEST_F(ModelFolders, PartsOfAnotherModelAreNotTaken) {
  make_comfy_folder(path());
  QuantFile other = repacked_text();
  StoredTensor& table = other.tensors.at("model.embed_tokens.weight");
  table.shape = {table.shape[0] / 2, table.shape[1] * 2};
  other.add_floats("padding", {1 << 16}, std::vector<float>(1 << 16));
  write_tensors(other, path("text_encoders/another.safetensors"));
  const auto files = find_model_files(path(), {}, kPlenty);
  ASSERT_TRUE(files.ok()) << files.error().text();
  EXPECT_EQ(files->text_encoder.file.path.filename(), "qwen.safetensors");
}

TEST_F(ModelFolders, IncompletePartsAreNamed) {
  QuantFile file = plain_dit();
  std::erase_if(file.tensors, [](const auto& entry) { return entry.first.starts_with("blocks.2."); });
  file.tensors.erase("blocks.3.mlp.fc2.weight");
  file.add_floats("blocks.0.attn.to_gate_compress.weight", {2, 2}, {1, 2, 3, 4});
  file.add_floats("something.else", {1}, {1});
  write_tensors(file, path("h3_fl2va_nf4.safetensors"));
  const auto identity = identify(path("h3_fl2va_nf4.safetensors"));
  ASSERT_TRUE(identity.ok()) << identity.error().text();
  EXPECT_EQ(identity->missing, (std::vector<std::string>{"blocks.2.*", "blocks.3.mlp.fc2.weight"}));
  EXPECT_EQ(identity->unexpected, std::vector<std::string>{"something.else"});
  ASSERT_EQ(identity->warnings.size(), 1u);
  EXPECT_EQ(identity->warnings.front(), "its name says nf4, its content is mostly BF16");
  ASSERT_EQ(identity->extras.size(), 1u);
  EXPECT_NE(identity->extras.front().find("to_gate_compress"), std::string::npos);
  const auto description = describe_file(path("h3_fl2va_nf4.safetensors"));
  ASSERT_TRUE(description.ok());
  for (const char* part : {"full diffusion transformer", "MISSING", "blocks.2.*", "plain", "FL2VA: its name", "warning"})
    EXPECT_NE(description->text.find(part), std::string::npos) << part << " is not in:\n" << description->text.substr(0, 3000);
  EXPECT_EQ(description->text.find("\n\n"), std::string::npos) << "no blank lines";
}

// VAEs without any configuration: the constants of the released model, with the statistics a file holds itself.
TEST_F(ModelFolders, ReleasedVaesNeedNoConfiguration) {
  QuantFile video;
  const std::vector<float> means(24, 0.5f);
  video.add_floats("encoder.conv_in.weight", {128, 1}, std::vector<float>(128));
  video.add_floats("decoder.x_embedder.weight", {2048, 1}, std::vector<float>(2048));
  video.add_floats("decoder.register_tokens", {1}, {0});
  video.add_floats("decoder.proj_out.weight", {1, 1}, {0});
  video.add_floats("latents_mean", {24}, means);
  video.metadata["minimax_h3_video_vae"] = R"({"clip_length": 34, "unknown": 1})";
  write_tensors(video, path("video.safetensors"));
  const auto file = part_candidate(path("video.safetensors"), std::nullopt);
  ASSERT_TRUE(file.ok()) << file.error().text();
  EXPECT_FALSE(file->identity.missing.empty());
  auto checkpoint = Checkpoint::open(path("video.safetensors"));
  ASSERT_TRUE(checkpoint.ok());
  const auto part = open_video_vae(std::make_shared<const Checkpoint>(std::move(*checkpoint)), 64);
  ASSERT_TRUE(part.ok());
  const auto texts = video_vae_config_texts(*file, **part);
  ASSERT_TRUE(texts.ok()) << texts.error().text();
  const auto config = video_vae::VideoVaeConfig::parse(texts->config, texts->source);
  ASSERT_TRUE(config.ok()) << config.error().text();
  EXPECT_EQ(config->layers, 36);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->clip_length, 34);
  EXPECT_EQ(config->latents_mean, means);
  EXPECT_FLOAT_EQ(config->latents_std.front(), 1.2223774f);

  QuantFile audio;
  audio.add_floats("dec_in_proj.weight", {2048, 1}, std::vector<float>(2048));
  audio.add_floats("decoder.ups.0.0.bias", {512}, std::vector<float>(512));
  write_tensors(audio, path("audio.safetensors"));
  const auto audio_file = part_candidate(path("audio.safetensors"), std::nullopt);
  ASSERT_TRUE(audio_file.ok()) << audio_file.error().text();
  auto audio_checkpoint = Checkpoint::open(path("audio.safetensors"));
  ASSERT_TRUE(audio_checkpoint.ok());
  const auto audio_part = open_audio_vae(std::make_shared<const Checkpoint>(std::move(*audio_checkpoint)));
  ASSERT_TRUE(audio_part.ok());
  const auto audio_texts = audio_vae_config_texts(*audio_file, **audio_part);
  ASSERT_TRUE(audio_texts.ok()) << audio_texts.error().text();
  const auto audio_config = audio_vae::AudioVaeConfig::parse(audio_texts->config, audio_texts->metadata);
  ASSERT_TRUE(audio_config.ok()) << audio_config.error().text();
  EXPECT_EQ(audio_config->samples_per_latent(), 800);
  EXPECT_EQ(audio_config->latents_mean.size(), 32u);
}

}  // namespace
}  // namespace tritium::test
