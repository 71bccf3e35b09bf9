// Every stage of the demonstration model on devices other than the CPU, against the CPU: Mesa's software Vulkan and an RPC server on
// loopback.
#include "e2e/demo_stages.h"
#include "pipeline/fallbacks.h"
#include "support/build.h"
#include "support/golden.h"
#include "support/process.h"
#include "unit/temp_folder.h"

#include <tritium/engine.h>

#include <gtest/gtest.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace tritium {
namespace {

constexpr double kTolerance = 1e-5;         // relative L2 of float32 results that differ in the order of their sums
constexpr double kDecoderTolerance = 1e-4;  // through many layers with sines

constexpr const char* kNoVulkan = "NO VULKAN DEVICE: install libggml0-backend-vulkan and mesa-vulkan-drivers to test one";

// Asked for before ggml looks.
const bool kShowSoftwareVulkan = setenv("GGML_VK_VISIBLE_DEVICES", "0", 0) == 0;

// "tritium rpc-server" on a free port of loopback.
class Server {
 public:
  Server() : process_(command()) {
    for (int i = 0; i < 500 && name_.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::ifstream(folder_.path() / "name") >> name_;
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  void send(int signal) const { process_.send(signal); }
  test::Outcome finish() { return process_.finish(); }

 private:
  test::Command command() {
    test::Command out;
    out.arguments = {test::tritium_binary(), "rpc-server", "--threads", "2"};
    out.output = folder_.path() / "name";
    return out;
  }
  test::TempFolder folder_;
  test::Process process_;
  std::string name_;
};

bool installed(const std::string& name) {
  const auto devices = list_devices();
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.name == name; });
}

Request small_request() {
  Request request;
  request.prompt = "a red circle moves to the right on a blue background with a low tone";
  request.width = request.height = 64;
  request.frames = 5;
  request.steps = 1;
  return request;
}

// What one device makes of the stages, each fed with the CPU's result of the stage before.
struct Results {
  std::vector<float> text;
  Latents velocity;
  Clip clip;
};

Latents noise_of(const Plan& plan) { return demo::require(initial_noise(plan)); }

Results run_stages(demo::Stages& demo, const std::vector<float>* text) {
  const Request request = small_request();
  Plan plan = demo.plan(request);
  plan.seed = 7;
  plan.noise = "diffsynth";
  plan.video_sigmas = plan.audio_sigmas = {1, 0};  // a step of length 1 ends at noise + velocity
  Conditioning conditioning = demo.encode(request.prompt);
  Results out{conditioning.text, {}, {}};
  if (text != nullptr) conditioning.text = *text;
  const Latents noise = noise_of(plan);
  out.velocity = demo::require(denoise(*demo.dit, plan, conditioning, noise, nullptr, {})).latents;
  out.clip = demo.decode(plan, noise);
  return out;
}

std::vector<float> widened(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

void expect_like_cpu(const std::string& device) {
  demo::Stages cpu, other(device);
  ASSERT_FALSE(other.device->fast_kernels());
  const Results want = run_stages(cpu, nullptr), have = run_stages(other, &want.text);
  golden::expect_within(device + " text encoder", golden::rel_l2(have.text, want.text), kTolerance);
  golden::expect_within(device + " transformer, video", golden::rel_l2(have.velocity.video, want.velocity.video), kTolerance);
  golden::expect_within(device + " transformer, audio", golden::rel_l2(have.velocity.audio, want.velocity.audio), kTolerance);
  golden::expect_within(device + " video decoder, largest difference of 255",
                        golden::max_abs_diff(widened(have.clip.rgb), widened(want.clip.rgb)), 1);
  golden::expect_within(device + " audio decoder, left", golden::rel_l2(have.clip.left, want.clip.left), kDecoderTolerance);
  golden::expect_within(device + " audio decoder, right", golden::rel_l2(have.clip.right, want.clip.right), kDecoderTolerance);
  for (const UnsupportedOp& op : other.device->fallbacks())
    ADD_FAILURE() << device << " left to the CPU: " << op.scope << ": " << op.operation;
}

TEST(Devices, SoftwareVulkanComputesEveryStageLikeTheCpu) {
  ASSERT_TRUE(kShowSoftwareVulkan);
  if (!installed("Vulkan0")) GTEST_SKIP() << kNoVulkan;
  expect_like_cpu("Vulkan0");
}

TEST(Devices, RpcOnLoopbackComputesEveryStageLikeTheCpu) {
  const Server server;
  ASSERT_FALSE(server.name().empty()) << "is libggml0-backend-rpc installed?";
  expect_like_cpu(server.name());
}

// Encoders too, and without weights.
TEST(Devices, NoOperationOfAnyPartFallsBackToTheCpuOnVulkan) {
  if (!installed("Vulkan0")) GTEST_SKIP() << kNoVulkan;
  const ModelInfo model = demo::require(open_model(demo::folder()));
  for (const char* compute : {"f32", "bf16"})
    for (const Part part :
         {Part::text, Part::dit, Part::video_decoder, Part::audio_decoder, Part::vision, Part::video_encoder, Part::audio_encoder})
      for (const UnsupportedOp& op : demo::require(part_fallbacks(model, part, "Vulkan0", compute)))
        ADD_FAILURE() << compute << " " << op.scope << ": " << op.operation << ", " << op.count << " times";
}

// The text encoder on one device, the transformer split 60/40 over two: like everything on the CPU.
TEST(Devices, ATransformerSplitOverDifferentDevices) {
  const Server server;
  ASSERT_FALSE(server.name().empty());
  const test::TempFolder folder;
  const auto latents = [&](const std::string& device) {
    EngineOptions options;
    options.model = demo::folder();
    options.device = device;
    const auto engine = demo::require(Engine::open(options));
    Request request = small_request();
    request.steps = 3;
    request.seed = 5;
    OutputOptions output;
    output.video = folder.path() / "x.mp4";
    output.latents = folder.path() / "x.safetensors";
    demo::require(engine->generate(request, output));
    return demo::require(demo::require(Checkpoint::open(output.latents)).read_f32("video"));
  };
  const std::vector<float> want = latents("CPU");
  for (const std::string& device : {"dit=CPU*60+" + server.name() + "*40,text=CPU", "text=" + server.name() + ",dit=CPU,vae=CPU",
                                    "dit=" + server.name() + "*2+CPU*1,text=CPU,vae=CPU"})
    golden::expect_within(device, golden::rel_l2(latents(device), want), kDecoderTolerance);
}

// Two of the same hardware, each used by a thread of its own.
TEST(Devices, SeveralDevicesWorkAtTheSameTime) {
  demo::Stages one(""), two("");
  Results first, second;
  std::thread other([&] { second = run_stages(two, nullptr); });
  first = run_stages(one, nullptr);
  other.join();
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(first.velocity.video, second.velocity.video);
  EXPECT_EQ(first.clip.rgb, second.clip.rgb);
}

TEST(Devices, AServerThatIsNotThereIsAnErrorThatNamesIt) {
  const auto device = Device::open("rpc://127.0.0.1:1");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::device);
  EXPECT_NE(device.error().text().find("rpc://127.0.0.1:1"), std::string::npos) << device.error().text();
}

TEST(Devices, ABusyServerIsAnErrorThatNamesIt) {
  const Server server;
  const auto mine = Device::open(server.name());
  ASSERT_TRUE(mine.ok()) << mine.error().text();
  EXPECT_EQ((*mine)->info().kind, "remote");
  EXPECT_GT((*mine)->info().memory_total, 0u);
  EXPECT_TRUE(Device::open(server.name()).ok());  // the same process shares the connection
  test::Command command;
  command.arguments = {test::tritium_binary(), "plan", "x", "--device", server.name()};
  const test::Outcome outcome = test::run(command);
  EXPECT_EQ(outcome.status, static_cast<int>(ErrorCode::device));
  EXPECT_NE(outcome.err.find(server.name()), std::string::npos) << outcome.err;
}

TEST(Devices, AServerEndsOnSigterm) {
  Server server;
  server.send(SIGTERM);
  const test::Outcome outcome = server.finish();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

// ggml ends the worker; the program says which device it was, and in which stage.
TEST(Devices, AServerKilledWhileComputingEndsTheRun) {
  Server server;
  test::TempFolder folder;
  test::Command command;
  command.arguments = {
      test::tritium_binary(), "generate", "x", "--steps", "1000", "--device", server.name(), "-o", (folder.path() / "x.mp4").string()};
  command.environment = {{"GGML_NO_BACKTRACE", "1"}};
  test::Process run(command);
  ASSERT_TRUE(run.wait_for_error_text("denoise")) << run.error_text();
  const auto killed = std::chrono::steady_clock::now();
  server.send(SIGKILL);
  const test::Outcome outcome = run.finish();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.status, static_cast<int>(ErrorCode::device)) << outcome.err;
  EXPECT_NE(outcome.err.find(server.name()), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("denoise"), std::string::npos) << outcome.err;
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(20));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x.mp4"));
}

}  // namespace
}  // namespace tritium
