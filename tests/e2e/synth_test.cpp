// Synthetic models run end to end in every kind of format, and the command that writes them stays out of the main help.
#include "support/tritium_program.h"
#include "weights/checkpoint.h"

#include <gtest/gtest.h>
#include <cmath>

namespace tritium::test {
namespace {

class Synth : public TritiumProgram {};

// The values of a float32 tensor.
std::vector<float> floats(const Checkpoint& checkpoint, const std::string& name) {
  auto values = checkpoint.read_f32(name);
  EXPECT_TRUE(values.ok()) << values.error().text();
  return values.ok() ? std::move(*values) : std::vector<float>{};
}

TEST_F(Synth, IsNotInTheMainHelp) {
  EXPECT_EQ(succeed({"--help"}).out.find("\n  synth"), std::string::npos);
  EXPECT_NE(succeed({"synth", "--help"}).out.find("--preset"), std::string::npos);
}

TEST_F(Synth, GeneratesInEveryKindOfFormat) {
  for (const std::string format : {"f32", "int8-convrot", "w4a8", "nf4", "q8_0"})
    for (const bool pruned : {false, true}) {
      const std::string name = format + (pruned ? "_pruned" : "_full");
      Arguments make = {"synth", name, "--preset", "tiny", "--format", format, "--seed", "4"};
      if (pruned) make.push_back("--pruned");
      (void)succeed(make);
      EXPECT_EQ(succeed({"inspect", name}).out.find("note:"), std::string::npos) << name;
      const Outcome outcome = tritium({"generate", "a red circle", "-m", name, "--width", "96", "--height", "64", "--frames", "22",
                                       "--steps", "2", "--seed", "1", "--latents", name + ".safetensors", "-o", name + ".mp4"});
      // Random weights make no pictures: the guards may say so, after everything has been computed.
      EXPECT_TRUE(outcome.status == 0 || outcome.status == 6) << name << ": " << outcome.err;
      EXPECT_EQ(outcome.err.find("finite"), std::string::npos) << name << ": " << outcome.err;
      if (outcome.status != 0) continue;
      const auto latents = Checkpoint::open(path(name + ".safetensors"));
      ASSERT_TRUE(latents.ok()) << name << ": " << latents.error().text() << outcome.err;
      for (const std::string& tensor : latents->names()) {
        if (latents->find(tensor)->dtype != DType::f32) continue;
        for (const float v : floats(*latents, tensor)) ASSERT_TRUE(std::isfinite(v) && std::abs(v) < 1e3f) << name << " " << tensor;
      }
    }
}

TEST_F(Synth, WrongOptionsAreUsageErrors) {
  EXPECT_EQ(tritium({"synth", "x", "--format", "q9"}).status, 2);
  EXPECT_EQ(tritium({"synth", "x", "--set", "dit.colour=3"}).status, 2);
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tritium::test
