// An engine in a worker process: it gives what one in this process gives, and survives whatever happens to the worker.
#include "base/files.h"
#include "job/isolated_engine.h"
#include "job/worker_codec.h"
#include "job/worker_protocol.h"
#include "support/build.h"
#include "support/process.h"
#include "unit/temp_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <csignal>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

namespace tritium {
namespace {

namespace fs = std::filesystem;

class Isolated : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model = fs::path(TRITIUM_SOURCE_DIR) / "models/demo";
    isolation_.command = {test::tritium_binary(), "worker"};
    request_.prompt = "a red circle moves to the right";
    request_.frames = 22;
    request_.steps = 2;
    request_.seed = 1;
  }
  void open() {
    auto opened = open_isolated_engine(options_, isolation_);
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    engine_ = std::move(*opened);
  }
  // The error of opening, which has to fail.
  [[nodiscard]] Error refusal() const {
    const auto opened = open_isolated_engine(options_, isolation_);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }
  static pid_t worker() {
    const auto children = test::children_of(::getpid());
    EXPECT_EQ(children.size(), 1u);
    return children.empty() ? -1 : children.front();
  }
  static void send(int signal) {
    if (const pid_t pid = worker(); pid > 0) ::kill(pid, signal);
  }
  [[nodiscard]] OutputOptions output(const std::string& name = "out") const {
    const fs::path at = folder_.path();
    return {at / (name + ".mp4"), at / (name + ".frames"), at / (name + ".wav"), at / (name + ".safetensors")};
  }
  // Everything in the folder but the pictures, and of those only what is no picture.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      if (const std::string name = entry.path().filename().string(); !entry.is_directory() && !name.starts_with("frame_")) out.insert(name);
    return out;
  }
  [[nodiscard]] std::string bytes(const std::string& name) const {
    const auto content = read_file(folder_.path() / name);
    EXPECT_TRUE(content.ok()) << content.error().text();
    return content.ok() ? *content : "";
  }
  void clear() const {
    for (const auto& entry : fs::directory_iterator(folder_.path())) fs::remove_all(entry.path());
  }
  static void expect_parts(const Error& error, ErrorCode code, const std::vector<std::string>& parts) {
    EXPECT_EQ(error.code, code) << error.text();
    for (const std::string& part : parts)
      EXPECT_NE(error.text().find(part), std::string::npos) << "'" << part << "' not in: " << error.text();
  }

  test::TempFolder folder_;
  EngineOptions options_;
  IsolationOptions isolation_;
  std::unique_ptr<Engine> engine_;
  Request request_;
};

// All of a progress report that does not depend on the clock.
std::string report(const Progress& p) {
  return p.stage + " " + std::to_string(p.step) + "/" + std::to_string(p.of) + " " + std::to_string(p.fraction);
}

TEST_F(Isolated, GivesTheSameAsAnEngineInThisProcess) {
  auto local = Engine::open(options_);
  ASSERT_TRUE(local.ok()) << local.error().text();
  open();
  EXPECT_EQ(engine_->model_json(), (*local)->model_json());
  EXPECT_EQ(engine_->model_text(), (*local)->model_text());
  std::vector<std::string> reports[2];
  std::vector<Plan> plans[2];
  Artifact artifacts[2];
  Engine* const engines[2] = {local->get(), engine_.get()};
  for (int i = 0; i < 2; ++i) {
    const GenerateHooks hooks{[&](const Plan& p) { plans[i].push_back(p); }, [&](const Progress& p) { reports[i].push_back(report(p)); }};
    auto made = engines[i]->generate(request_, output(std::to_string(i)), hooks, nullptr);
    ASSERT_TRUE(made.ok()) << made.error().text();
    artifacts[i] = std::move(*made);
    ASSERT_EQ(plans[i].size(), 1u);
    auto planned = engines[i]->plan(request_);
    ASSERT_TRUE(planned.ok()) << planned.error().text();
    plans[i].push_back(std::move(*planned));
    plans[i].push_back(artifacts[i].plan);
  }
  EXPECT_EQ(reports[0], reports[1]);
  for (std::size_t i = 0; i < 3; ++i) {
    for (auto* each : {plans, plans + 1}) {
      (*each)[i].available_bytes = 0;  // what is free differs from moment to moment
      for (MemoryPeak& memory : (*each)[i].memories) memory.budget_bytes = 0;
    }
    EXPECT_EQ(plan_json(plans[0][i]), plan_json(plans[1][i]));
  }
  EXPECT_EQ(artifacts[1].video, output("1").video);
  EXPECT_EQ(artifacts[0].warnings, artifacts[1].warnings);
  ASSERT_EQ(artifacts[0].timings.size(), artifacts[1].timings.size());
  for (const char* part : {".safetensors", ".wav", ".frames/frame_00000.png", ".frames/frame_00021.png"})
    EXPECT_EQ(bytes(std::string("0") + part), bytes(std::string("1") + part)) << part;
}

TEST_F(Isolated, GivesTheSameErrors) {
  auto local = Engine::open(options_);
  ASSERT_TRUE(local.ok());
  open();
  std::vector<std::pair<Request, OutputOptions>> wrong(6, {request_, output()});
  wrong[0].first.width = -5;
  wrong[1].first.seconds = std::numeric_limits<double>::quiet_NaN();
  wrong[1].first.frames.reset();
  wrong[2].first.prompt = "not \xff UTF-8";
  wrong[3].first.first_frame = "no/such/picture.png";
  wrong[4].second.video = folder_.path() / "no" / "folder.mp4";
  wrong[5].second.video.clear();
  for (const auto& [request, where] : wrong) {
    const auto here = (*local)->generate(request, where), there = engine_->generate(request, where);
    ASSERT_FALSE(here.ok());
    ASSERT_FALSE(there.ok());
    EXPECT_EQ(here.error().code, there.error().code);
    EXPECT_EQ(here.error().text(), there.error().text());
    EXPECT_EQ(here.error().field, there.error().field);
  }
  EXPECT_EQ(files(), std::set<std::string>{});
  EXPECT_TRUE(engine_->generate(request_, output()).ok());

  options_.device = "no such device";
  expect_parts(refusal(), ErrorCode::device, {"there is no device 'no such device'"});
  options_.model = folder_.path() / "nothing";
  expect_parts(refusal(), ErrorCode::model, {"nothing"});
}

// The caller is told where the worker was; nothing is left; the next request gets another worker and the same numbers.
TEST_F(Isolated, KilledInEveryStage) {
  open();
  ASSERT_TRUE(engine_->generate(request_, output()).ok());
  const std::string latents = bytes("out.safetensors"), sound = bytes("out.wav");
  clear();
  for (const std::string& stage : std::vector<std::string>{"load", "text", "denoise", "audio", "video", "write"}) {
    engine_.reset();  // nothing loaded
    open();
    Progress last;
    bool killed = false;
    const auto made = engine_->generate(request_, output(), [&](const Progress& p) {
      last = p;
      if (p.stage == stage && !killed) {
        killed = true;
        send(SIGKILL);
      }
    });
    ASSERT_TRUE(killed);
    if (made.ok()) {
      // The signal came when all was done: then all is there.
      EXPECT_TRUE(stage == "video" || stage == "write") << stage;
      EXPECT_EQ(files(), (std::set<std::string>{"out.mp4", "out.mp4.json", "out.wav", "out.safetensors"}));
    } else {
      expect_parts(made.error(), ErrorCode::does_not_fit, {"signal 9 (Killed) in stage " + last.stage, "out of memory"});
      if (last.of > 0)
        expect_parts(made.error(), ErrorCode::does_not_fit, {"step " + std::to_string(last.step) + " of " + std::to_string(last.of)});
      EXPECT_EQ(files(), std::set<std::string>{}) << stage;
    }
    clear();
    const auto again = engine_->generate(request_, output());
    ASSERT_TRUE(again.ok()) << stage << ": " << again.error().text();
    EXPECT_EQ(bytes("out.safetensors"), latents) << stage;
    EXPECT_EQ(bytes("out.wav"), sound) << stage;
    clear();
  }
}

// Results that stood there before are not of this request.
TEST_F(Isolated, KilledBeforeWritingAnEarlierResultStays) {
  open();
  ASSERT_TRUE(engine_->generate(request_, output()).ok());
  const auto before = files();
  const std::string sidecar = bytes("out.mp4.json");
  bool killed = false;
  const auto made = engine_->generate(request_, output(), [&](const Progress& p) {
    if (p.stage == "denoise" && !std::exchange(killed, true)) send(SIGKILL);
  });
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(files(), before);
  EXPECT_EQ(bytes("out.mp4.json"), sidecar);
}

TEST_F(Isolated, KilledBetweenRequests) {
  open();
  ASSERT_TRUE(engine_->plan(request_).ok());
  const pid_t first = worker();
  ::kill(first, SIGKILL);
  ASSERT_TRUE(test::wait_until_ended(first));
  const auto made = engine_->generate(request_, output());
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_NE(worker(), first);
}

TEST_F(Isolated, OtherEndingsAreNamed) {
  open();
  for (const auto& [signal, code, text] : {std::tuple(SIGABRT, ErrorCode::device, "signal 6 (Aborted)"),
                                           std::tuple(SIGSEGV, ErrorCode::device, "signal 11 (Segmentation fault)")}) {
    bool sent = false;
    const auto made = engine_->generate(request_, output(), [&, which = signal](const Progress& p) {
      if (p.stage == "denoise" && !std::exchange(sent, true)) send(which);
    });
    ASSERT_FALSE(made.ok());
    // A sanitizer reports these signals itself and ends the process with a status of its own.
    if (made.error().message.find("with status") == std::string::npos) expect_parts(made.error(), code, {text, "in stage denoise"});
    EXPECT_EQ(files(), std::set<std::string>{});
  }
}

TEST_F(Isolated, AStoppedWorkerIsEndedAfterTheStallLimit) {
  isolation_.stall_seconds = 5;
  open();
  bool stopped = false;
  const auto made = engine_->generate(request_, output(), [&](const Progress& p) {
    if (p.stage == "denoise" && !std::exchange(stopped, true)) send(SIGSTOP);
  });
  ASSERT_FALSE(made.ok());
  expect_parts(made.error(), ErrorCode::device, {"reported nothing for 5 s in stage denoise on CPU"});
  EXPECT_EQ(files(), std::set<std::string>{});
  EXPECT_TRUE(test::children_of(::getpid()).empty());
  const auto again = engine_->generate(request_, output());
  EXPECT_TRUE(again.ok()) << again.error().text();
}

TEST_F(Isolated, AWorkerThatDoesNotStopWhenCancelledIsKilled) {
  isolation_.grace_seconds = 0.5;
  open();
  CancelToken cancel;
  const auto made = engine_->generate(
      request_, output(),
      [&](const Progress& p) {
        if (p.stage != "denoise" || cancel.cancelled()) return;
        send(SIGSTOP);
        cancel.cancel();
      },
      &cancel);
  ASSERT_FALSE(made.ok());
  expect_parts(made.error(), ErrorCode::interrupted, {"interrupted during denoise"});
  EXPECT_EQ(files(), std::set<std::string>{});
}

TEST_F(Isolated, CancelledInEveryStageTheWorkerStays) {
  open();
  ASSERT_TRUE(engine_->plan(request_).ok());
  const pid_t first = worker();
  request_.steps = 50;
  for (const std::string& stage : std::vector<std::string>{"load", "text", "denoise"}) {
    CancelToken cancel;
    const auto made = engine_->generate(
        request_, output(),
        [&](const Progress& p) {
          if (p.stage == stage) cancel.cancel();
        },
        &cancel);
    ASSERT_FALSE(made.ok()) << stage;
    expect_parts(made.error(), ErrorCode::interrupted, {"interrupted during "});
    EXPECT_EQ(files(), std::set<std::string>{}) << stage;
  }
  CancelToken before;
  before.cancel();
  const auto made = engine_->generate(request_, output(), GenerateHooks{}, &before);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::interrupted);
  request_.steps = 2;
  EXPECT_TRUE(engine_->generate(request_, output()).ok()) << "a cancelled request must not cancel the next";
  EXPECT_EQ(worker(), first);
}

TEST_F(Isolated, ACallbackThatThrows) {
  open();
  EXPECT_THROW((void)engine_->generate(request_, output(),
                                       [&](const Progress& p) {
                                         if (p.stage == "denoise") throw std::runtime_error("enough");
                                       }),
               std::runtime_error);
  EXPECT_EQ(files(), std::set<std::string>{});
  const auto again = engine_->generate(request_, output());
  EXPECT_TRUE(again.ok()) << again.error().text();
}

// The kernel tells a child that its parent died when the thread ends that started it.
TEST_F(Isolated, OutlivesTheThreadThatOpenedIt) {
  std::thread([&] { open(); }).join();
  const pid_t first = worker();
  EXPECT_TRUE(engine_->generate(request_, output()).ok());
  EXPECT_EQ(worker(), first);
}

TEST_F(Isolated, NoProcessIsLeftWhenTheEngineGoes) {
  open();
  const pid_t first = worker();
  engine_.reset();
  EXPECT_TRUE(test::wait_until_ended(first));
  EXPECT_TRUE(test::children_of(::getpid()).empty());
}

TEST_F(Isolated, TwoAtOnceDoNotDisturbEachOther) {
  open();
  const pid_t mine = worker();
  auto other = open_isolated_engine(options_, isolation_);
  ASSERT_TRUE(other.ok()) << other.error().text();
  Result<Artifact> second = Error{};
  std::thread thread([&] { second = (*other)->generate(request_, output("second")); });
  bool killed = false;
  const auto first = engine_->generate(request_, output("first"), [&](const Progress& p) {
    if (p.stage == "text" && !std::exchange(killed, true)) ::kill(mine, SIGKILL);
  });
  thread.join();
  EXPECT_FALSE(first.ok());
  EXPECT_TRUE(second.ok()) << second.error().text();
}

TEST_F(Isolated, RelativeNamesAreThoseOfTheCaller) {
  const fs::path home = fs::current_path();
  struct Return {
    fs::path to;
    ~Return() { fs::current_path(to); }
  } const back{home};
  fs::current_path(fs::path(TRITIUM_SOURCE_DIR));
  open();
  fs::current_path(folder_.path());
  const auto made = engine_->generate(request_, {.video = "here.mp4"});
  ASSERT_TRUE(made.ok()) << made.error().text();
  EXPECT_EQ(made->video, "here.mp4");
  EXPECT_EQ(files(), (std::set<std::string>{"here.mp4", "here.mp4.json"}));
}

TEST_F(Isolated, OverAnotherDescriptor) {
  isolation_.command = {"/bin/sh", "-c", "exec \"$0\" worker --fd 3 3<&0 </dev/null >/dev/null", test::tritium_binary()};
  open();
  const auto made = engine_->generate(request_, output());
  EXPECT_TRUE(made.ok()) << made.error().text();
}

// A server's sockets must not live on in a worker.
TEST_F(Isolated, NothingIsHandedDown) {
  const fs::path held = folder_.path() / "held";
  const int descriptor = ::open(held.c_str(), O_CREAT | O_RDWR, 0600);  // without O_CLOEXEC
  ASSERT_GE(descriptor, 0);
  open();
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(worker()) + "/fd")) {
    std::error_code ignored;
    EXPECT_NE(fs::read_symlink(entry.path(), ignored), held);
  }
  ::close(descriptor);
}

// Programs that are no worker.

TEST_F(Isolated, ThereIsNoSuchProgram) {
  isolation_.command = {"/no/such/program", "worker"};
  expect_parts(refusal(), ErrorCode::failure, {"'/no/such/program' cannot be started", "No such file or directory"});
}

TEST_F(Isolated, AProgramThatSaysSomethingElse) {
  isolation_.command = {"/bin/sh", "-c", "echo 'what went wrong' >&2; echo 'Hello, world'; exec sleep 1000"};
  expect_parts(refusal(), ErrorCode::failure, {"while starting", "Hello, world"});
  EXPECT_TRUE(test::children_of(::getpid()).empty());
}

TEST_F(Isolated, AProgramThatEndsAtOnce) {
  isolation_.command = {"/bin/sh", "-c", "echo 'a library is missing' >&2; exit 9"};
  expect_parts(refusal(), ErrorCode::device, {"ended with status 9 while starting", "a library is missing"});
}

TEST_F(Isolated, AProgramThatSaysNothing) {
  isolation_.command = {"/bin/sleep", "1000"};
  isolation_.stall_seconds = 0.5;
  expect_parts(refusal(), ErrorCode::device, {"reported nothing for 0.5 s while starting"});
}

// A process that it started holds its streams open.
TEST_F(Isolated, AProgramThatLeavesAChildBehind) {
  isolation_.command = {"/bin/sh", "-c", "sleep 20 & exit 3"};
  expect_parts(refusal(), ErrorCode::model, {"ended with status 3 while starting"});
}

TEST_F(Isolated, AWorkerOfAnotherVersion) {
  const auto hello = encode_frame(FrameType::hello, encode_message(HelloMessage{99, "7.7.7"}));
  isolation_.command = {"/bin/cat", folder_.write("hello", *hello).string()};
  expect_parts(refusal(), ErrorCode::failure, {"version 7.7.7 with protocol 99 there", version()});
}

// It greets properly and then sends frames that make no sense.
TEST_F(Isolated, AWorkerThatIsConfused) {
  isolation_.stall_seconds = 5;  // for the last one
  const std::string hello = *encode_frame(FrameType::hello, hello_body());
  const std::pair<std::string, const char*> cases[] = {
      {*encode_frame(FrameType::progress, "{}"), "out of turn"},
      {*encode_frame(FrameType::opened, "{\"model_json\":\"\"}"), "lacks the field 'model_text'"},
      {*encode_frame(FrameType::opened, "nonsense"), "no JSON"},
      {*encode_frame(FrameType::failed, "{}"), "lacks the field 'error'"},
      {std::string("TrW\x06\xff\xff\xff\xff"), "4294967295 bytes"},
      {"TrW", "while opening the model"}};
  for (const auto& [bytes, part] : cases) {
    // It reads as long as the caller speaks, so that it does not end before it is heard.
    isolation_.command = {"/bin/sh", "-c", "cat \"$0\"; exec cat >/dev/null", folder_.write("frames", hello + bytes).string()};
    const Error error = refusal();
    expect_parts(error, bytes == "TrW" ? ErrorCode::device : ErrorCode::failure, {part});
  }
}

}  // namespace
}  // namespace tritium
