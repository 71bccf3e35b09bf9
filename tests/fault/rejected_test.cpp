// Output that nobody can want: a black, even or silent clip, or numbers that are not finite. Never reported as a success (exit status 6).
#include "media/reader.h"
#include "support/model_copy.h"
#include "support/tritium_program.h"

#include <limits>

namespace tritium::test {
namespace {

constexpr const char* kTransformer = "transformer/model.safetensors";
constexpr const char* kText = "text_encoder/model.safetensors";
constexpr const char* kVideo = "video_vae/source/model.safetensors";
constexpr const char* kAudio = "audio_vae/model.safetensors";
constexpr float kHuge = 1e38f;  // finite, in bfloat16 too; one product is not

class Rejected : public TritiumProgram {
 protected:
  [[nodiscard]] Outcome generate(const ModelCopy& model, const Arguments& more = {}) const {
    const Outcome outcome = tritium(Arguments{"generate", "a red circle", "--frames", "5", "--steps", "2", "--seed", "3", "-o", "out.mp4",
                                              "-m", model.path().string()} +
                                    more);
    EXPECT_EQ(outcome.status, 6) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return outcome;
  }
  // The clip was made: it is kept for inspection under a name of its own, with the reason in its metadata.
  void expect_kept(const Outcome& outcome, const std::string& reason) const {
    for (const std::string& part : {std::string("the output is not acceptable"), reason, std::string("out.rejected.mp4")})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << "'" << part << "' is not in: " << outcome.err;
    EXPECT_EQ(files(), (std::set<std::string>{"out.rejected.mp4", "out.rejected.mp4.json"}));
    const auto info = probe_media(path("out.rejected.mp4"));
    ASSERT_TRUE(info.ok()) << info.error().text();
    ASSERT_TRUE(info->video);
    EXPECT_EQ(info->video->frames, 5);
    const auto problems = parse(info->metadata.at("tritium")).at("guard").at("problems");
    ASSERT_FALSE(problems.empty());
    EXPECT_NE(problems.dump().find(reason), std::string::npos) << problems;
  }
  // Nothing could be made.
  void expect_nothing(const Outcome& outcome, const std::vector<std::string>& parts) const {
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << "'" << part << "' is not in: " << outcome.err;
    EXPECT_EQ(files(), std::set<std::string>{});
  }
};

TEST_F(Rejected, AnEvenPicture) {
  const ModelCopy model;
  model.fill_tensor(kVideo, "decoder.proj_out.weight", 0);
  model.fill_tensor(kVideo, "decoder.proj_out.bias", 0);
  const Outcome outcome = generate(model, {"--wav", "out.wav", "--frames-dir", "frames"});
  expect_kept(outcome, "all 5 frames show one even colour");
  expect_kept(outcome, "the picture is frozen");
}

TEST_F(Rejected, ABlackPicture) {
  const ModelCopy model;
  model.fill_tensor(kVideo, "decoder.proj_out.weight", 0);
  model.fill_tensor(kVideo, "decoder.proj_out.bias", -4);
  expect_kept(generate(model), "all 5 frames are black");
}

TEST_F(Rejected, SoundThatIsSilent) {
  const ModelCopy model;
  model.fill_tensor(kAudio, "decoder.conv_post.weight_g", 0);
  expect_kept(generate(model), "the sound is silent");
}

TEST_F(Rejected, SoundThatIsClipped) {
  const ModelCopy model;
  model.fill_tensor(kAudio, "decoder.conv_post.weight_g", 1e6f);
  expect_kept(generate(model), "the sound is clipped");
}

// C1, C5: where the numbers broke is named: stage, step and block.
TEST_F(Rejected, NumbersThatOverflowInTheTransformer) {
  const ModelCopy block;
  block.fill_tensor(kTransformer, "blocks.3.mlp.fc2.weight", kHuge);
  expect_nothing(generate(block), {"not finite", "dit.step0.block3", "--device CPU"});
  const ModelCopy modulation;
  modulation.fill_tensor(kTransformer, "blocks.2.adaln_proj.linear.weight", kHuge);
  expect_nothing(generate(modulation), {"not finite", "block2"});
  const ModelCopy last;
  last.fill_tensor(kTransformer, "final_layer.video_out.weight", kHuge);
  expect_nothing(generate(last), {"not finite", "dit.step0.final"});
}

TEST_F(Rejected, NumbersThatOverflowInTheOtherParts) {
  const ModelCopy text;
  text.fill_tensor(kText, "model.language_model.layers.1.mlp.down_proj.weight", kHuge);
  expect_nothing(generate(text), {"not finite", "text.layer1"});
  const ModelCopy embeddings;  // read row by row when a prompt needs them, so damage shows only then
  embeddings.fill_tensor(kText, "model.language_model.embed_tokens.weight", std::numeric_limits<float>::infinity());
  expect_nothing(generate(embeddings), {"not finite", "text"});
  const ModelCopy video;
  video.fill_tensor(kVideo, "decoder.transformer_blocks.2.ff.w2.weight", kHuge);
  expect_nothing(generate(video), {"finite", "video VAE", "clip 0, tile (0,0)"});
  const ModelCopy audio;
  audio.fill_tensor(kAudio, "decoder.conv_pre.weight_g", kHuge);
  expect_nothing(generate(audio), {"not finite", "audio_vae.left"});
}

}  // namespace
}  // namespace tritium::test
