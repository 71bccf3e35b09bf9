// Requests that cannot be meant: each is refused at once with the field, the value, what is allowed and what to do, and nothing is written.
#include "support/tritium_program.h"

namespace tritium::test {
namespace {

class BadRequest : public TritiumProgram {
 protected:
  // Every part must be in the message.
  void expect_refused(const Outcome& outcome, int status, const std::vector<std::string>& parts) const {
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << "'" << part << "' is not in: " << outcome.err;
    EXPECT_EQ(files(), before_) << outcome.err;
  }
  [[nodiscard]] Outcome generate(const Arguments& arguments) const { return tritium(Arguments{"generate", "-o", "out.mp4"} + arguments); }

  std::set<std::string> before_;  // files that the test itself made
};

TEST_F(BadRequest, ValuesOutOfRange) {
  struct Case {
    Arguments arguments;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {{"--width", "0"}, {"width: 0", "1..8192", "nearest possible value is 32"}},
      {{"--height", "-5"}, {"height: -5", "1..8192", "nearest possible value is 32"}},
      {{"--width", "100000", "--height", "100000"}, {"width: 100000", "1..8192", "nearest possible value is 8192"}},
      {{"--width", "99999999999999999999999"}, {"width", "1..8192"}},
      {{"--width", "wide"}, {"--width", "wide"}},
      {{"--frames", "0"}, {"frames: 0", "1..3609", "nearest possible length is 5 frames"}},
      {{"--frames", "-1"}, {"frames: -1", "1..3609"}},
      {{"--frames", "1.5"}, {"--frames", "1.5"}},
      {{"--seconds", "400"}, {"seconds: 400", "150.375", "nearest possible length is 3609 frames"}},
      {{"--seconds", "nan"}, {"seconds: nan"}},
      {{"--seconds", "inf"}, {"seconds: inf"}},
      {{"--seconds", "-2"}, {"seconds: -2"}},
      {{"--seconds", "2", "--frames", "22"}, {"--seconds", "--frames"}},
      {{"--steps", "0"}, {"steps: 0", "1 to 1000", "nearest valid value is 1"}},
      {{"--steps", "100000"}, {"steps: 100000", "1 to 1000", "nearest valid value is 1000"}},
      {{"--video-shift", "nan"}, {"video_shift:", "nan", "0.1..100"}},
      {{"--audio-shift", "inf"}, {"audio_shift:", "inf", "0.1..100"}},
      {{"--video-shift", "0"}, {"video_shift:", "0.1..100"}},
      {{"--seed", "-1"}, {"--seed", "-1", "18446744073709551615"}},
      {{"--seed", "18446744073709551616"}, {"--seed", "18446744073709551616"}},
      {{"--noise", "pink"}, {"noise: 'pink'", "diffsynth, sglang, comfyui"}},
      {{"--compute", "f16"}, {"--compute", "f16", "bf16"}},
      {{"--threads", "-1"}, {"--threads", "-1", "0 to 4096"}},
      {{"--progress", "fancy"}, {"--progress", "fancy", "json"}},
      {{"--no-such-option"}, {"--no-such-option"}},
  };
  for (const Case& each : cases) expect_refused(generate(Arguments{"x"} + each.arguments), 2, each.parts);
}

// Given on purpose, an empty name is an unset variable of a script, not the default.
TEST_F(BadRequest, EmptyNamesOfFiles) {
  for (const char* option : {"--model", "--dit", "--text-encoder", "--video-vae", "--audio-vae", "--tokenizer", "--dump-tensors", "--wav",
                             "--latents", "--frames-dir", "--lora-basis", "--first-frame", "--ref-image", "--retake", "--prompt-file"})
    expect_refused(generate({"x", option, ""}), 2, {option, "empty"});
  expect_refused(tritium({"generate", "x", "-o", ""}), 2, {"--output", "empty"});
  expect_refused(tritium({"plan", "x", "-m", ""}), 2, {"--model", "empty"});
  expect_refused(tritium({"inspect", ""}), 2, {"path", "empty"});
  expect_refused(tritium({"convert", "", "out", "--to", "int8"}), 2, {"source", "empty"});
}

TEST_F(BadRequest, APromptMustBeText) {
  expect_refused(generate({""}), 2, {"prompt:", "empty"});
  expect_refused(generate({}), 2, {"prompt:", "empty"});
  expect_refused(generate({"\xff\xfe"
                           "broken"}),
                 2, {"prompt:", "UTF-8", "0xFF", "offset 0"});
  before_ = {"bad.txt"};
  folder_.write("bad.txt", std::string_view("a red\0circle", 12));
  expect_refused(generate({"-f", "bad.txt"}), 2, {"prompt:", "zero byte at offset 5", "UTF-8"});
  folder_.write("bad.txt", "caf\xe9\n");
  expect_refused(generate({"-f", "bad.txt"}), 2, {"prompt:", "UTF-8", "0xE9", "offset 3"});
  folder_.write("bad.txt", "");
  expect_refused(generate({"-f", "bad.txt"}), 2, {"prompt:", "empty"});
  expect_refused(generate({"-f", "no_such.txt"}), 2, {"prompt-file:", "no_such.txt", "No such file"});
  expect_refused(generate({"-f", "."}), 2, {"prompt-file:", "directory"});
}

// 8000 characters are much, but text; more tokens than the encoder has positions are not.
TEST_F(BadRequest, ALongPromptIsComputedOrRefused) {
  std::string words;
  while (words.size() < 8000) words += "a red circle moves to the right on a blue background with a low tone, ";
  words.resize(8000);
  const Outcome fine = generate({words, "--frames", "5", "--steps", "1"});
  EXPECT_EQ(fine.status, 0) << fine.err;
  EXPECT_EQ(fine.out, "out.mp4\n");
  before_ = files();
  std::string letters;
  for (int i = 0; i < 8000; ++i) letters += static_cast<char>('!' + i * 7 % 90);
  expect_refused(generate({letters}), 2, {"prompt:", "tokens", "4096"});
}

TEST_F(BadRequest, SpecialTokensAloneAreAPrompt) {
  const Outcome fine = generate({"<|im_start|><|im_end|><|endoftext|>", "--frames", "5", "--steps", "1"});
  EXPECT_EQ(fine.status, 0) << fine.err;
  const Outcome pad = tritium({"plan", "<|image_pad|>"});
  EXPECT_EQ(pad.status, 0) << pad.err;
  EXPECT_NE(pad.out.find("warning: the prompt contains '<|image_pad|>'"), std::string::npos) << pad.out;
}

TEST_F(BadRequest, OneFrameIsRaisedToTheShortestClip) {
  const Outcome one = generate({"x", "--frames", "1", "--steps", "1"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.err.find("note: frames 1 -> 5"), std::string::npos) << one.err;
}

// Refused with numbers, never made smaller silently.
TEST_F(BadRequest, A30_WhatDoesNotFitIsRefusedWithNumbers) {
  expect_refused(generate({"x", "--width", "8192", "--height", "8192", "--seconds", "150"}), 4,
                 {"8192x8192", "needs", "GiB of host memory", "GiB is allowed", "what would fit"});
}

TEST_F(BadRequest, ADeviceMustExist) {
  expect_refused(generate({"x", "--device", "Vulkan99"}), 5, {"device:", "'Vulkan99'", "CPU", "tritium devices"});
}

}  // namespace
}  // namespace tritium::test
