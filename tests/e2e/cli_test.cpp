// The other sub-commands, where values come from, and what a request is turned into: nothing is computed here.
#include "support/tritium_program.h"

#include <gtest/gtest.h>

namespace tritium::test {
namespace {

using Json = nlohmann::json;

const std::string kDemo = std::string(TRITIUM_SOURCE_DIR) + "/models/demo";

class CommandLine : public TritiumProgram {
 protected:
  [[nodiscard]] Json plan(const Arguments& arguments) const { return json(Arguments{"plan", "--json"} + arguments); }

  // Runs with an environment or an input.
  [[nodiscard]] Outcome tritium_with(const Arguments& arguments, std::map<std::string, std::string> environment,
                                     std::optional<std::string> input = {}) const {
    Command out = command(arguments);
    out.environment = std::move(environment);
    out.input = std::move(input);
    return run(out);
  }

  static std::string denoise_precision(const Json& plan) {
    for (const Json& stage : plan.at("stages"))
      if (stage.at("stage") == "denoise") return stage.at("precision");
    return "";
  }
};

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

// Every length is raised to 17n+5 frames and the real count is told.
TEST_F(CommandLine, A27_SecondsAreRaisedToTheGrid) {
  for (int seconds = 4; seconds <= 15; ++seconds) {
    const Json plan = this->plan({"x", "--seconds", std::to_string(seconds)});
    const int frames = plan.at("frames").get<int>(), asked = seconds * 24;
    EXPECT_EQ((frames - 5) % 17, 0) << seconds;
    EXPECT_GE(frames, asked);
    EXPECT_LT(frames, asked + 17);
    EXPECT_EQ(plan.at("adjustments").size(), frames == asked ? 0u : 1u) << seconds;
    for (const Json& adjustment : plan.at("adjustments")) EXPECT_EQ(adjustment.at("field"), "seconds");
    EXPECT_DOUBLE_EQ(plan.at("seconds").get<double>(), frames / 24.0);
  }
}

TEST_F(CommandLine, A29_FramesFollowThisModelsRule) {
  for (const auto& [asked, frames] : {std::pair(34, 39), std::pair(124, 124), std::pair(168, 175)}) {
    const Json plan = this->plan({"x", "--frames", std::to_string(asked)});
    EXPECT_EQ(plan.at("frames"), frames);
    EXPECT_EQ(plan.at("adjustments").empty(), asked == frames);
  }
}

TEST_F(CommandLine, APlanIsPrintedForPeopleAndForMachines) {
  const std::string text = succeed({"plan", "a red circle", "--width", "100", "--seed", "3"}).out;
  for (const char* part : {"128x96, 22 frames at 24 fps", "20 steps, seed 3", "denoise", "memory of the host: about",
                           "note: width 100 -> 128", "warning: width 128"})
    expect_contains(text, part);
  const Json plan = this->plan({"a red circle", "--seed", "3"});
  EXPECT_EQ(plan.at("seed"), 3);
  EXPECT_EQ(plan.at("sigmas").at("video").size(), 21u);
  EXPECT_EQ(plan.at("stages").size(), 4u);
  EXPECT_EQ(files(), std::set<std::string>{}) << "planning writes nothing";
}

TEST_F(CommandLine, AccelerationsAreOptionsOfARequest) {
  EXPECT_FALSE(plan({"x"}).contains("acceleration"));
  EXPECT_EQ(plan({"x", "--reuse-velocity", "3", "--blocks", "4", "--draft"}).at("acceleration"),
            Json::parse(R"({"reuse_velocity": 3, "blocks": 4, "draft": true, "evaluations": 8, "blocks_of_model": 5})"));
  EXPECT_EQ(plan({"x", "--reuse-core", "6"}).at("acceleration").at("evaluations"), 5);
  EXPECT_EQ(plan({"x", "--easycache"}).at("acceleration").at("easycache"),
            Json::parse(R"({"threshold": 0.2, "start": 0.15, "end": 0.95})"));
  EXPECT_EQ(plan({"--easycache=0.3", "--easycache-start", "0.5", "x"}).at("acceleration").at("easycache"),
            Json::parse(R"({"threshold": 0.3, "start": 0.5, "end": 0.95})"));
  for (const Arguments& wrong : {Arguments{"--reuse-core", "7"}, Arguments{"--easycache=-1"}, Arguments{"--blocks", "two"},
                                 Arguments{"--reuse-core", "2", "--easycache"}})
    EXPECT_EQ(tritium(Arguments{"plan", "x"} + wrong).status, 2);
}

TEST_F(CommandLine, ThePromptComesFromArgumentFileOrInput) {
  const std::string prompt = "红色的圆 and a \"low\" tone";
  const auto prompt_of = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return parse(outcome.out).at("prompt").get<std::string>();
  };
  EXPECT_EQ(prompt_of(tritium({"plan", "--json", prompt})), prompt);
  for (const char* end : {"", "\n", "\r\n"}) {
    folder_.write("prompt.txt", prompt + end);
    EXPECT_EQ(prompt_of(tritium({"plan", "--json", "-f", "prompt.txt"})), prompt);
    EXPECT_EQ(prompt_of(tritium_with({"plan", "--json", "-f", "-"}, {}, prompt + end)), prompt);
    EXPECT_EQ(prompt_of(tritium_with({"plan", "--json"}, {}, prompt + end)), prompt);
  }
  EXPECT_EQ(prompt_of(tritium_with({"plan", "--json"}, {}, "two\nlines\n")), "two\nlines")
      << "only the last line end is none of the prompt";
  EXPECT_EQ(tritium({"plan", "x", "-f", "prompt.txt"}).status, 2);
}

TEST_F(CommandLine, FlagsWinOverTheEnvironmentAndTheEnvironmentOverTheFile) {
  folder_.write("options.toml", "[plan]\nsteps = 3\nseed = 5\ncompute = \"f32\"\n");
  const Arguments configured = {"--config", "options.toml", "plan", "x", "--json"};
  const Json by_file = json(configured);
  EXPECT_EQ(by_file.at("steps"), 3);
  EXPECT_EQ(by_file.at("seed"), 5);
  EXPECT_EQ(json({"plan", "x", "--json", "--config", "options.toml"}).at("seed"), 5) << "--config may stand anywhere";
  EXPECT_EQ(json(configured + Arguments{"--steps", "4"}).at("steps"), 4);
  EXPECT_EQ(denoise_precision(by_file), "f32");
  const std::map<std::string, std::string> bf16 = {{"TRITIUM_COMPUTE", "bf16"}};
  EXPECT_EQ(denoise_precision(parse(tritium_with(configured, bf16).out)), "bf16");
  EXPECT_EQ(denoise_precision(parse(tritium_with(configured + Arguments{"--compute", "f32"}, bf16).out)), "f32");
}

TEST_F(CommandLine, EveryModelOptionCanComeFromTheEnvironment) {
  const Arguments plan = {"plan", "x"};
  EXPECT_EQ(tritium_with(plan, {{"TRITIUM_MODEL", "no_such_model"}}).status, 3);
  EXPECT_EQ(tritium_with(plan, {{"TRITIUM_DEVICE", "no_such_device"}}).status, 5);
  EXPECT_EQ(tritium_with(plan, {{"TRITIUM_THREADS", "many"}}).status, 2);
  EXPECT_EQ(tritium_with(plan, {{"TRITIUM_COMPUTE", "f8"}}).status, 2);
  const Outcome fine =
      tritium_with(plan, {{"TRITIUM_MODEL", kDemo}, {"TRITIUM_DEVICE", "cpu"}, {"TRITIUM_THREADS", "1"}, {"TRITIUM_COMPUTE", ""}});
  EXPECT_EQ(fine.status, 0);
  EXPECT_EQ(fine.err, "") << "a named model needs no remark";
}

TEST_F(CommandLine, AConfigFileMustBeUnderstood) {
  for (const auto& [wrong, name] :
       {std::pair("[plan]\nstepz = 3\n", "'plan.stepz'"), {"steps = 3\n", "'steps'"}, {"[plam]\nsteps = 3\n", "'plam'"}}) {
    folder_.write("options.toml", wrong);
    const Outcome outcome = tritium({"--config", "options.toml", "plan", "x"});
    EXPECT_EQ(outcome.status, 2) << wrong;
    expect_contains(outcome.err, std::string("config: unknown key or section ") + name);
    EXPECT_EQ(outcome.out, "");
  }
  folder_.write("options.toml", "[plan]\nsteps = many\n");
  EXPECT_EQ(tritium({"--config", "options.toml", "plan", "x"}).status, 2);
  const Outcome missing = tritium({"--config", "no_such.toml", "plan", "x"});
  EXPECT_EQ(missing.status, 2);
  expect_contains(missing.err, "no_such.toml");
}

TEST_F(CommandLine, InspectDescribesAModelAndAFile) {
  for (const Arguments& which : {Arguments{}, Arguments{kDemo}, Arguments{kDemo + "/FL2VA"}}) {
    const std::string text = succeed(Arguments{"inspect"} + which).out;
    for (const char* part :
         {"MiniMax-H3, FL2VA", "diffusion transformer", "text encoder", "video VAE", "audio VAE", "defaults: 96x96, 22 frames"})
      expect_contains(text, part);
  }
  const Json model = json({"inspect", kDemo, "--json"});
  EXPECT_EQ(model.at("family"), "MiniMax-H3");
  EXPECT_EQ(model.at("partition"), "FL2VA");
  EXPECT_EQ(model.at("defaults").at("frames"), 22);
  EXPECT_EQ(model.at("parts").size(), 4u);
  const std::string weights = kDemo + "/FL2VA/transformer/model.safetensors";
  expect_contains(succeed({"inspect", weights}).out, "blocks.0.attn.qkv_proj.weight");
  const Json file = json({"inspect", weights, "--json"});
  EXPECT_EQ(file.at("tensor_list").size(), file.at("tensors").get<std::size_t>());
}

TEST_F(CommandLine, InspectTakesPartFoldersAndTheModelOptions) {
  for (const char* part : {"transformer", "text_encoder", "video_vae/source", "audio_vae"}) {
    const Json json_part = json({"inspect", kDemo + "/FL2VA/" + part, "--json"});
    EXPECT_EQ(json_part.at("missing").size(), 0u) << part;
    EXPECT_NE(json_part.at("role"), "unknown") << part;
  }
  const std::string by_option = succeed({"inspect", "-m", kDemo}).out;
  expect_contains(by_option, "official (qkv interleaved per head): shards with the official config.json");
  EXPECT_EQ(by_option.find("\n\n"), std::string::npos) << "no blank lines";
  const Json model = json({"inspect", "-m", kDemo, "--audio-vae", kDemo + "/FL2VA/audio_vae", "--json"});
  EXPECT_EQ(model.at("parts").at("audio_vae").at("chosen_because"), "named with --audio-vae");
  EXPECT_EQ(model.at("parts").at("diffusion_transformer").at("variant"), "full");
  const Outcome refused = tritium({"plan", "x", "-m", kDemo, "--partition", "ref2va"});
  EXPECT_EQ(refused.status, 3) << "an FL2VA file is not used for Ref2VA";
  expect_contains(refused.err, "--partition asks for Ref2VA");
  EXPECT_EQ(tritium({"plan", "x", "--partition", "both"}).status, 2);
}

TEST_F(CommandLine, DevicesListsTheProcessor) {
  expect_contains(succeed({"devices"}).out, "CPU");
  const Json devices = json({"devices", "--json"});
  ASSERT_FALSE(devices.empty());
  bool cpu = false;
  for (const Json& device : devices) {
    if (device.at("kind") != "cpu") continue;
    cpu = true;
    EXPECT_GT(device.at("memory_total").get<std::uint64_t>(), 0u);
  }
  EXPECT_TRUE(cpu);
}

TEST_F(CommandLine, HelpAndVersionGoToStandardOutput) {
  expect_contains(succeed({"--version"}).out, "tritium ");
  for (const Arguments& what : {Arguments{"--help"}, Arguments{"generate", "--help"}, Arguments{"plan", "--help"}})
    expect_contains(succeed(what).out, "--help");
  const Outcome nothing = tritium({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.out, "");
}

TEST_F(CommandLine, OutputThatCannotBePrintedIsAnError) {
  Command full = command({"plan", "x"});
  full.output = "/dev/full";
  const Outcome outcome = run(full);
  EXPECT_EQ(outcome.status, 1);
  expect_contains(outcome.err, "standard output");
}

}  // namespace
}  // namespace tritium::test
