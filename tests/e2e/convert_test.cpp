// The converter as a program: the demo model in every format, continuing after kill -9 at any moment, memory, full disks.
#include "base/files.h"
#include "support/build.h"
#include "support/tritium_program.h"
#include "weights/checkpoint.h"
#include "weights/convert/part_file.h"
#include "weights/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <fstream>
#include <thread>

namespace tritium::test {
namespace {

namespace fs = std::filesystem;

class ConvertProgram : public TritiumProgram {
 protected:
  static std::string demo() { return TRITIUM_SOURCE_DIR "/models/demo"; }

  // What inspect says of the format of the transformer's matrices in blocks: "int8 convrot 64", "Q8_0", ...
  [[nodiscard]] std::string formats_of(const std::string& file) const {
    const Outcome outcome = succeed({"inspect", file});
    return outcome.out;
  }

  // A transformer of `layers` blocks as a BF16 file without data: every weight reads as zero, and the file takes no room.
  [[nodiscard]] std::uint64_t write_sparse_transformer(const fs::path& file, int layers, std::int64_t hidden) const {
    std::string header = "{";
    std::uint64_t offset = 0;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      std::uint64_t bytes = 2;
      for (const std::int64_t d : shape) bytes *= static_cast<std::uint64_t>(d);
      header += fmt::format("{}\"{}\":{{\"dtype\":\"BF16\",\"shape\":{},\"data_offsets\":[{},{}]}}", header.size() > 1 ? "," : "", name,
                            nlohmann::json(shape).dump(), offset, offset + bytes);
      offset += bytes;
    };
    const auto block = [&](const std::string& b) {
      add(b + ".attn.qkv_proj.weight", {3 * hidden, hidden});
      add(b + ".attn.out_proj.weight", {hidden, hidden});
      add(b + ".mlp.fc1.weight", {8 * hidden, hidden});
      add(b + ".mlp.fc2.weight", {hidden, 4 * hidden});
      for (const char* norm : {".norm1.weight", ".norm2.weight"}) add(b + norm, {hidden});
      for (const char* norm : {".attn.q_norm.weight", ".attn.k_norm.weight"}) add(b + norm, {128});
    };
    const auto linear = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
      add(name + ".weight", {rows, columns});
      add(name + ".bias", {rows});
    };
    for (int n = 0; n < layers; ++n) {
      block(fmt::format("blocks.{}", n));
      linear(fmt::format("blocks.{}.adaln_proj.linear", n), 18 * hidden, 64);
    }
    block("token_refiner.blocks.0");
    add("token_refiner.final_norm.weight", {hidden});
    add("final_layer.norm.weight", {hidden});
    linear("final_layer.adaln_proj.linear", 2 * hidden, 64);
    linear("final_layer.video_out", 96, hidden);
    linear("final_layer.audio_out", 32, hidden);
    linear("video_patch_proj", hidden, 96);
    linear("audio_patch_proj", hidden, 32);
    linear("condition_proj", hidden, 512);
    linear("time_embedder.proj_in", 256, 256);
    linear("time_embedder.proj_out", 64, 256);
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::ofstream out(file, std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), 8);
    out << header;
    out.close();
    fs::resize_file(file, 8 + header.size() + offset);
    return offset;
  }
};

struct Case {
  std::string format, named;  // as inspect calls it
};

TEST_F(ConvertProgram, DemoInEveryFormatIsNamedRight) {
  // The rows of the demo model fill no blocks of 256: Q4_K becomes Q5_0, as in llama.cpp.
  for (const Case& c : {Case{"bf16", "BF16"}, Case{"f16", "F16"}, Case{"f32", "F32"}, Case{"fp8", "fp8"}, Case{"int8", "int8"},
                        Case{"int8-convrot", "int8 convrot"}, Case{"w4a8", "w4a8"}, Case{"nf4", "nf4"}, Case{"q8_0", "Q8_0"},
                        Case{"q4_0", "Q4_0"}, Case{"q4_k", "Q5_0"}}) {
    const bool gguf = c.format[0] == 'q';
    const std::string file = path("dit_" + c.format + (gguf ? ".gguf" : ".safetensors"));
    const nlohmann::json report = json({"convert", demo(), file, "--to", c.format, "--part", "dit", "--json"});
    EXPECT_EQ(report["parts"].size(), 1u);
    const std::string said = formats_of(file);
    EXPECT_NE(said.find(c.named), std::string::npos) << c.format << ":\n" << said;
    EXPECT_NE(said.find("FL2VA"), std::string::npos) << said;
  }
}

TEST_F(ConvertProgram, WholeModelBecomesAFolderThatIsAModel) {
  const Outcome outcome = succeed({"convert", demo(), "out", "--to", "int8-convrot", "--report", "report.json"});
  EXPECT_NE(outcome.out.find("blocks.N.mlp.fc1"), std::string::npos) << outcome.out;
  const auto text = read_file(path("report.json"));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(parse(*text)["parts"].size(), 4u);
  EXPECT_TRUE(fs::exists(path("out/tokenizer/vocab.json")));
  const Outcome inspected = succeed({"inspect", "out"});
  EXPECT_NE(inspected.out.find("int8 convrot"), std::string::npos) << inspected.out;
  const Outcome plan = succeed({"plan", "a red circle", "-m", "out"});
  EXPECT_NE(plan.out.find("96"), std::string::npos) << plan.out;
  EXPECT_EQ(tritium({"convert", demo(), "out", "--to", "int8-convrot"}).status, 2) << "files are there already";
  EXPECT_EQ(tritium({"convert", demo(), "out", "--to", "int8-convrot", "--overwrite"}).status, 0);
}

// The whole model in each format makes the clip that the original makes, as nearly as the format allows (docs/convert.md has the figures).
TEST_F(ConvertProgram, B6_EveryFormatGeneratesTheSameClip) {
  struct Bound {
    std::string format;
    double video_latents, psnr;
  };
  for (const Bound& bound : {Bound{"f16", 1e-5, 80}, Bound{"fp8", 0.08, 40}, Bound{"int8-convrot", 0.03, 48}, Bound{"w4a8", 0.2, 33},
                             Bound{"nf4", 0.3, 28}, Bound{"q8_0", 0.03, 48}, Bound{"q4_k", 0.15, 35}}) {
    const nlohmann::json report = json({"convert", demo(), bound.format, "--to", bound.format, "--compare", "--json"});
    ASSERT_FALSE(report["compare"].empty());
    for (const auto& each : report["compare"]) {
      EXPECT_LE(each["video_latent_error"].get<double>(), bound.video_latents) << bound.format;
      EXPECT_GE(each["frame_psnr_db"].is_number() ? each["frame_psnr_db"].get<double>() : 1000, bound.psnr) << bound.format;
    }
    fs::remove_all(path(bound.format));
  }
}

TEST_F(ConvertProgram, PrunedDemoIsSaidToBePruned) {
  const Outcome outcome = succeed({"convert", demo(), "pruned.safetensors", "--prune=8"});
  EXPECT_NE(outcome.out.find("curve table of rank 8"), std::string::npos) << outcome.out;
  EXPECT_NE(formats_of(path("pruned.safetensors")).find("pruned"), std::string::npos);
}

TEST_F(ConvertProgram, UsageErrors) {
  const auto refused = [&](const Arguments& arguments, const std::string& said, int status = 2) {
    const Outcome outcome = tritium(Arguments{"convert"} + arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  };
  refused({demo(), "x.safetensors", "--to", "int7"}, "no format");
  refused({demo(), "x.safetensors", "--to", "q4_k"}, ".gguf");
  refused({demo(), "x.gguf", "--to", "nf4"}, "safetensors");
  refused({demo(), "x.safetensors"}, "nothing to do");
  refused({demo(), "x.safetensors", "--to", "bf16", "--part", "all"}, "folder");
  refused({demo(), "x.safetensors", "--to", "bf16", "--part", "text", "--prune"}, "transformer");
  refused({demo(), "x.safetensors", "--to", "bf16", "--keep", "bf16"}, "GLOB=FORMAT");
  refused({demo(), "x.safetensors", "--prune=17"}, "rank");
  refused({"nowhere", "x.safetensors", "--to", "bf16"}, "does not exist", 3);
  EXPECT_TRUE(files().empty() || !fs::exists(path("x.safetensors")));
}

TEST_F(ConvertProgram, TargetsThatCannotBeMeantAreRefused) {
  fs::copy(demo() + "/FL2VA/transformer", path("transformer"), fs::copy_options::recursive);
  fs::create_directory_symlink("transformer", path("link"));
  const std::set<std::string> before = files();
  const auto refused = [&](const Arguments& arguments, const std::string& said) {
    const Outcome outcome = tritium(Arguments{"convert"} + arguments + Arguments{"--to", "int8", "--partition", "fl2va"});
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("target: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_EQ(files(), before);
  };
  for (const char* target : {"transformer", "transformer/", "transformer/deep/er", "link/sub", "./x/../transformer"})
    refused({"transformer", target}, "source folder");
  for (const char* target : {"out.bin", "out.pt", "out.pth", "out.CKPT", "out.onnx", "out.zip"}) refused({"transformer", target}, ".gguf");
  (void)succeed({"convert", "transformer", "transformer2", "--to", "int8", "--partition", "fl2va"});  // a name that starts alike
  (void)succeed({"convert", "transformer", "OUT.SAFETENSORS", "--to", "int8", "--partition", "fl2va"});
  (void)succeed({"convert", "transformer", "OUT.GGUF", "--to", "q8_0", "--partition", "fl2va"});
  EXPECT_TRUE(fs::is_regular_file(path("OUT.SAFETENSORS")) && fs::is_regular_file(path("OUT.GGUF")));
}

TEST_F(ConvertProgram, KeepRulesThatMatchNothingAreSaid) {
  const Outcome outcome = succeed({"convert", demo(), "x.safetensors", "--to", "bf16", "--keep", "nomatch*=f32", "--keep", "*fc1*=f32"});
  EXPECT_NE(outcome.err.find("--keep 'nomatch*=f32' matches no tensor"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("*fc1*=f32"), std::string::npos) << outcome.err;
}

// docs/convert.md: quantized sources keep their format in the container that holds it.
TEST_F(ConvertProgram, KeepOfQuantizedSources) {
  (void)succeed({"convert", demo(), "a_fl2va.safetensors", "--to", "int8"});
  (void)succeed({"convert", demo(), "a_fl2va.gguf", "--to", "q4_0"});
  const auto kept = [&](const std::string& source, const std::string& target) {
    return json({"convert", source, target, "--to", "keep", "--json"})["parts"][0]["groups"]["blocks.N.mlp.fc1"]["after"].dump();
  };
  EXPECT_EQ(kept("a_fl2va.safetensors", "b.safetensors"), R"(["int8"])");
  EXPECT_EQ(kept("a_fl2va.safetensors", "b.gguf"), R"(["BF16"])");
  EXPECT_EQ(kept("a_fl2va.gguf", "c.gguf"), R"(["Q4_0"])");
  EXPECT_EQ(kept("a_fl2va.gguf", "c.safetensors"), R"(["BF16"])");
}

// Killed at any moment and run again, the result is that of an undisturbed run, byte for byte.
TEST_F(ConvertProgram, ContinuesAfterKill) {
  (void)write_sparse_transformer(path("source.safetensors"), 4, 512);
  {  // some of the weights are not zero
    std::fstream out(path("source.safetensors"), std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t length = 0;
    out.read(reinterpret_cast<char*>(&length), 8);
    std::vector<std::uint16_t> values(3 << 20);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::uint16_t>(0x3C00 + i * 2654435761u % 512 + (i % 3 == 0 ? 0x8000 : 0));
    for (int n = 0; n < 4; ++n) {
      out.seekp(static_cast<std::streamoff>(8 + length + static_cast<std::uint64_t>(n) * 9'000'000));
      out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 2));
    }
  }
  const Arguments convert{
      "convert", "source.safetensors", "out.safetensors", "--to", "w4a8", "--threads", "1", "--progress", "json", "--qkv-order", "plain"};
  const auto started = std::chrono::steady_clock::now();
  (void)succeed(convert);
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started);
  const auto content = [&](const char* name) {
    auto text = read_file(path(name));
    return text.ok() ? *text : text.error().message;
  };
  const std::string wanted = content("out.safetensors");
  int continued = 0;
  for (int moment = 0; moment < 8; ++moment) {
    fs::remove(path("out.safetensors"));
    int killed = 0;
    for (int run = 0; run < 3; ++run) {  // several times in one conversion
      Process process(command(convert));
      if (moment % 2 == 0)
        std::this_thread::sleep_for(whole * (moment + 1) / 12);
      else
        for (int i = 0; i < 6 * moment && process.wait_for_more_error_text(); ++i) {}
      process.send(SIGKILL);
      killed += process.finish().status == 128 + SIGKILL ? 1 : 0;
    }
    if (!fs::exists(path("out.safetensors"))) {
      const Outcome last = succeed(convert);
      continued += last.err.find("continuing") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(content("out.safetensors"), wanted) << moment << ", killed " << killed << " times";
    EXPECT_FALSE(fs::exists(PartFile::part_path(path("out.safetensors"))));
    EXPECT_FALSE(fs::exists(PartFile::journal_path(path("out.safetensors"))));
  }
  EXPECT_GT(continued, 0);
  fmt::print("a run takes {} ms; {} of 8 were continued\n", whole.count(), continued);
}

TEST_F(ConvertProgram, InterruptedRunSaysHowToContinue) {
  (void)write_sparse_transformer(path("source.safetensors"), 2, 512);
  Process process(command({"convert", "source.safetensors", "out.safetensors", "--to", "w4a8", "--threads", "1", "--progress", "json",
                           "--qkv-order", "plain"}));
  for (int i = 0; i < 5 && process.wait_for_more_error_text(); ++i) {}
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  if (outcome.status == 0) return;  // was done already
  EXPECT_EQ(outcome.status, 130);
  EXPECT_NE(outcome.err.find("run the same command to continue"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(path("out.safetensors")));
}

// A file of 1 GB goes through in a fraction of its size.
TEST_F(ConvertProgram, MemoryIsBounded) {
  const std::uint64_t limit = (sanitizer_holds_memory() ? 768u : 256u) << 20;  // a sanitizer has its shadow, and keeps what has been freed
  const std::uint64_t bytes = write_sparse_transformer(path("source.safetensors"), 6, 2048);
  ASSERT_GT(bytes, 900u << 20);
  for (const char* format : {"int8", "bf16", "nf4"}) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      if (chdir(folder().c_str()) != 0) _exit(99);
      const int silent = ::open("/dev/null", O_WRONLY);
      dup2(silent, 1);
      dup2(silent, 2);
      execl(tritium_binary(), "tritium", "convert", "source.safetensors", "out.safetensors", "--to", format, "--overwrite", "--qkv-order",
            "plain", "--progress", "none", static_cast<char*>(nullptr));
      _exit(98);
    }
    int status = 0;
    struct rusage use {};
    ASSERT_EQ(wait4(pid, &status, 0, &use), pid);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    const auto peak = static_cast<std::uint64_t>(use.ru_maxrss) * 1024;
    fmt::print("{}: source {} MiB, peak {} MiB\n", format, bytes >> 20, peak >> 20);
    EXPECT_LT(peak, limit) << format;
  }
}

// RLIMIT_FSIZE stands for a full disk: the error says so, nothing has the final name, and with room the run goes on.
TEST_F(ConvertProgram, FullDisk) {
  Command limited = command({"convert", demo(), "out.safetensors", "--to", "int8-convrot"});
  limited.file_size_limit = 1u << 20;
  const Outcome outcome = run(limited);
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  EXPECT_NE(outcome.err.find("out.safetensors"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(path("out.safetensors")));
  EXPECT_EQ(tritium({"convert", demo(), "out.safetensors", "--to", "int8-convrot"}).status, 0);
}

TEST_F(ConvertProgram, SecondWriterIsRefused) {
  const int fd = ::open(PartFile::part_path(path("out.safetensors")).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  const Outcome outcome = tritium({"convert", demo(), "out.safetensors", "--to", "bf16"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("another process"), std::string::npos) << outcome.err;
  ::close(fd);
}

}  // namespace
}  // namespace tritium::test
