// Model folders that are incomplete, damaged or contradict themselves: refused with exit status 3, naming the file or tensor and what was
// expected, before anything is written. B1, B2 and A35 of the field cases.
#include "base/files.h"
#include "support/build.h"
#include "support/model_copy.h"
#include "support/tritium_program.h"

#include <limits>
#include <tuple>

namespace tritium::test {
namespace {

constexpr const char* kTransformer = "transformer/model.safetensors";
constexpr const char* kText = "text_encoder/model.safetensors";
constexpr const char* kVideo = "video_vae/source/model.safetensors";
constexpr const char* kAudio = "audio_vae/model.safetensors";
constexpr const char* kWeights[] = {kTransformer, kText, kVideo, kAudio};

class BadModel : public TritiumProgram {
 protected:
  // `plan` already opens everything, "generate" also reads the weights.
  void expect_refused(const ModelCopy& model, const std::string& what, const std::vector<std::string>& parts) const {
    expect_refused_by({"generate", "x", "--frames", "5", "--steps", "1", "-o", "out.mp4", "-m", model.path().string()}, what, parts);
  }
  void expect_refused_by(const Arguments& arguments, const std::string& what, const std::vector<std::string>& parts) const {
    const Outcome outcome = tritium(arguments);
    EXPECT_EQ(outcome.status, 3) << what << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << what;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << what << ": '" << part << "' is not in: " << outcome.err;
    EXPECT_EQ(files(), std::set<std::string>{}) << what;
  }
};

TEST_F(BadModel, AnUntouchedCopyWorks) {
  const ModelCopy model;
  (void)succeed({"generate", "x", "--frames", "5", "--steps", "1", "-o", "out.mp4", "-m", model.path().string()});
  const auto sidecar = read_file(path("out.mp4.json"));
  ASSERT_TRUE(sidecar.ok());
  std::set<std::string> named;
  const auto document = parse(*sidecar);
  for (const auto& entry : document.at("model").at("weights")) named.insert(entry.at("file"));
  EXPECT_EQ(named, (std::set<std::string>{kTransformer, kText, kVideo, kAudio})) << "links are not followed out of the folder";
}

TEST_F(BadModel, FoldersThatAreNoModel) {
  expect_refused_by({"generate", "x", "-m", "no_such_folder"}, "missing", {"model:", "'no_such_folder' does not exist", "-m DIR"});
  expect_refused_by({"generate", "x", "-m", folder().string()}, "empty", {"model:", "not a MiniMax-H3 model folder", "FL2VA"});
  expect_refused_by({"generate", "x", "-m", tritium_binary()}, "a file", {"model:"});
  expect_refused_by({"inspect", "no_such_folder"}, "inspect", {"no_such_folder"});
}

TEST_F(BadModel, APartThatIsMissing) {
  for (const char* part : {"transformer", "text_encoder", "video_vae", "audio_vae"}) {
    const ModelCopy model;
    model.remove(part);
    expect_refused(model, part, {part == std::string("transformer") ? "not a MiniMax-H3 model folder" : part});
  }
}

// The release has copies of the tokenizer in several folders, any of which will do.
TEST_F(BadModel, ATokenizerThatIsMissing) {
  for (const char* file : {"vocab.json", "merges.txt"}) {
    const ModelCopy model;
    for (const char* folder : {"tokenizer/", "processor/"}) model.remove(folder + std::string(file));
    (void)succeed({"plan", "x", "-m", model.path().string()});
    model.remove("text_encoder/" + std::string(file));
    expect_refused(model, file, {"no tokenizer", file, "--tokenizer"});
  }
}

TEST_F(BadModel, AFileThatIsMissing) {
  for (const char* file : {"text_encoder/config.json", "video_vae/config.json", "video_vae/source/config.json", "audio_vae/config.json",
                           "tokenizer/tokenizer_config.json"}) {
    const ModelCopy model;
    model.remove(file);
    expect_refused(model, file, {file});
  }
  for (const auto& [file, part, option] : {std::tuple(kVideo, "no video VAE", "--video-vae"), {kAudio, "no audio VAE", "--audio-vae"}}) {
    const ModelCopy model;
    model.remove(file);
    expect_refused(model, file, {part, option, model.path().string()});
  }
}

TEST_F(BadModel, B1_FilesThatWereCut) {
  for (const char* file : kWeights) {
    const ModelCopy model;
    const std::string whole = model.content(file);
    for (const std::size_t keep : {whole.size() / 2, whole.size() - 1, std::size_t{9}, std::size_t{0}}) {
      model.replace(file, std::string_view(whole).substr(0, keep));
      expect_refused(model, std::string(file) + " cut to " + std::to_string(keep), {file, "download the file again"});
    }
    model.replace(file, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    expect_refused(model, file, {file, "Git LFS pointer", "git lfs pull"});
  }
}

TEST_F(BadModel, B1_DanglingLinks) {
  for (const char* file : kWeights) {
    const ModelCopy model;
    model.remove(file);
    std::filesystem::create_symlink("/no/such/blob", model.file(file));
    expect_refused(model, file, {std::filesystem::path(file).parent_path().string()});
  }
}

TEST_F(BadModel, B2_ShardsThatAreMissing) {
  const ModelCopy model;
  model.replace_text("transformer/model.safetensors.index.json", "\"blocks.1.attn.qkv_proj.weight\": \"model.safetensors\"",
                     "\"blocks.1.attn.qkv_proj.weight\": \"model-00002-of-00003.safetensors\"");
  model.replace_text("transformer/model.safetensors.index.json", "\"blocks.2.attn.qkv_proj.weight\": \"model.safetensors\"",
                     "\"blocks.2.attn.qkv_proj.weight\": \"model-00003-of-00003.safetensors\"");
  expect_refused(model, "two shards", {"2 of 3 shards", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"});
}

TEST_F(BadModel, ATensorOfAnotherShapeOrName) {
  const ModelCopy model;
  model.replace_text(kTransformer, "\"blocks.3.mlp.fc2.weight\":{\"dtype\":\"BF16\",\"shape\":[192,448]",
                     "\"blocks.3.mlp.fc2.weight\":{\"dtype\":\"BF16\",\"shape\":[448,192]");
  expect_refused(model, "shape", {"diffusion transformer", "'blocks.3.mlp.fc2.weight' is [448, 192], expected [192, 448]"});
  const ModelCopy renamed;
  renamed.replace_text(kVideo, "decoder.proj_out.weight", "decoder.proj_oot.weight");
  expect_refused(renamed, "name", {"video VAE", "'decoder.proj_out.weight'", "is missing"});
}

TEST_F(BadModel, AWeightThatIsNoNumber) {
  struct Case {
    const char *file, *tensor, *part;
  };
  for (const Case& each : {Case{kTransformer, "blocks.3.mlp.fc2.weight", "diffusion transformer"},
                           Case{kText, "model.language_model.layers.1.mlp.up_proj.weight", "text encoder"},
                           Case{kVideo, "decoder.proj_out.bias", "video VAE"}, Case{kAudio, "decoder.conv_pre.weight_v", "audio VAE"}}) {
    const ModelCopy model;
    model.poke_tensor(each.file, each.tensor, std::numeric_limits<float>::quiet_NaN());
    expect_refused(model, each.tensor, {each.part, "not finite", "download it again"});
  }
}

TEST_F(BadModel, ConfigurationsThatContradictTheWeights) {
  struct Case {
    const char *file, *from, *to, *part;
  };
  const Case cases[] = {
      {"transformer/config.json", "\"num_layers\": 5", "\"num_layers\": 6", "5"},
      {"transformer/config.json", "\"num_layers\": 5", "\"num_layers\": 1000000000", "num_layers"},
      {"transformer/config.json", "\"hidden_size\": 192", "\"hidden_size\": 256", "hidden_size"},
      {"transformer/config.json", "\"hidden_size\": 192", "\"hidden_size\": -192", "hidden_size"},
      {"transformer/config.json", "\"ffn_hidden_size\": 448", "\"ffn_hidden_size\": 1e30", "ffn_hidden_size"},
      {"transformer/config.json", "{", "{{", "JSON"},
      {"text_encoder/config.json", "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "layers.3"},
      {"text_encoder/config.json", "\"hidden_size\": 128", "\"hidden_size\": \"wide\"", "text encoder config.json"},
      {"text_encoder/config.json", "\"vocab_size\": 709", "\"vocab_size\": 100", "100 rows"},
      {"video_vae/source/config.json", "\"num_layers\": 4", "\"num_layers\": 5", "transformer_blocks.4"},
      {"video_vae/source/config.json", "\"heads\": 4", "\"heads\": 0", "heads"},
      {"video_vae/config.json", "\"latent_channels\": 24", "\"latent_channels\": 16", "24"},
      {"audio_vae/metadata.json", "\"decoder_dim\": 128", "\"decoder_dim\": 256", "audio VAE"},
      {"tritium.json", "\"steps\"", "\"stepz\"", "unknown key 'defaults.stepz'"},
      {"tritium.json", "20", "\"many\"", "tritium.json"},
      {"model_index.json", "{", "[", "model_index.json"},
  };
  for (const Case& each : cases) {
    const ModelCopy model;
    model.replace_text(each.file, each.from, each.to);
    expect_refused(model, std::string(each.file) + ": " + each.to, {each.part});
  }
}

TEST_F(BadModel, PartsOfDifferentModels) {
  const ModelCopy text;
  text.replace_text("transformer/config.json", "\"text_dim\": 128", "\"text_dim\": 160");
  expect_refused(text, "text width", {"160"});
  // A vocabulary with more ids than the encoder has rows.
  const ModelCopy tokenizer;
  const std::string config = tokenizer.content("tokenizer/tokenizer_config.json");
  auto json = parse(config);
  json["added_tokens_decoder"]["151669"] = {{"content", "<|another|>"}, {"special", true},     {"lstrip", false},
                                            {"rstrip", false},          {"normalized", false}, {"single_word", false}};
  tokenizer.replace("tokenizer/tokenizer_config.json", json.dump());
  expect_refused(tokenizer, "tokenizer", {"tokenizer", "151670", "709"});
}

TEST_F(BadModel, A35_AModelForAnotherTaskIsRefusedBeforeLoading) {
  const ModelCopy model;
  model.replace_text("model_index.json", "\"fl2va\"", "\"ref2va\"");
  expect_refused(model, "Ref2VA", {"model:", "Ref2VA", "FL2VA"});
}

}  // namespace
}  // namespace tritium::test
