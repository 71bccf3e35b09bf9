// The worker as a program, and the program with a worker: what callers send, who dies first, and what people see.
#include "job/worker_codec.h"
#include "job/worker_protocol.h"
#include "support/tritium_program.h"

#include <csignal>
#include <fstream>
#include <regex>

namespace tritium::test {
namespace {

const Arguments kEndless = {"generate", "a red circle", "--frames", "22",      "--steps",   "1000", "--seed",         "1",
                            "-o",       "out.mp4",      "--wav",    "out.wav", "--isolate", "on",   "--progress=json"};

// A report of denoising that counts: the first one is for its beginning.
bool wait_for_a_step(Process& process) {
  const std::regex step("\"stage\":\"denoise\",\"step\":[0-9]+,\"of\":[1-9]");
  while (!std::regex_search(process.error_text(), step))
    if (!process.wait_for_more_error_text()) return false;
  return true;
}

class Worker : public TritiumProgram {
 protected:
  [[nodiscard]] Outcome speak(const std::string& bytes) const {
    Command command = this->command({"worker"});
    command.input = bytes;
    return run(command);
  }
  static std::string frame(FrameType type, const std::string& body) {
    auto out = encode_frame(type, body);
    EXPECT_TRUE(out.ok());
    return out.ok() ? *out : "";
  }
  static std::vector<WorkerFrame> frames(const std::string& bytes) {
    FrameReader reader;
    reader.feed(bytes);
    std::vector<WorkerFrame> out;
    for (;;) {
      auto next = reader.next();
      EXPECT_TRUE(next.ok()) << next.error().text();
      if (!next.ok() || !next->has_value()) return out;
      out.push_back(std::move(**next));
    }
  }
  static pid_t worker_of(const Process& process) {
    const auto children = children_of(process.pid());
    EXPECT_EQ(children.size(), 1u);
    return children.empty() ? -1 : children.front();
  }
};

TEST_F(Worker, IsNotListedButThere) {
  EXPECT_EQ(succeed({"--help"}).out.find("\n  worker"), std::string::npos);
  EXPECT_NE(succeed({"worker", "--help"}).out.find("--fd"), std::string::npos);
}

TEST_F(Worker, EndsWithItsCaller) {
  const Outcome outcome = speak("");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto said = frames(outcome.out);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(check_hello(said[0]).ok());
  EXPECT_EQ(speak(frame(FrameType::hello, hello_body())).status, 0);
  EXPECT_EQ(speak(frame(FrameType::hello, hello_body()).substr(0, 11)).status, 0) << "the caller died while it spoke";
}

TEST_F(Worker, RefusesCallersThatItCannotUnderstand) {
  const std::string hello = frame(FrameType::hello, hello_body());
  const std::pair<std::string, const char*> cases[] = {
      {frame(FrameType::hello, encode_message(HelloMessage{99, "7.7.7"})), "version 7.7.7 with protocol 99 there"},
      {frame(FrameType::open, "{}"), "gives no version"},
      {hello + frame(FrameType::plan, "{}"), "before a model was opened"},
      {hello + frame(FrameType::open, "{}"), "lacks the field 'folder'"},
      {hello + frame(FrameType::done, "{}"), "not for a worker"}};
  for (const auto& [bytes, part] : cases) {
    const Outcome outcome = speak(bytes);
    EXPECT_EQ(outcome.status, 1) << part;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
    const auto said = frames(outcome.out);
    ASSERT_EQ(said.size(), 2u) << part;
    EXPECT_EQ(said[1].type, FrameType::failed);
    EXPECT_NE(said[1].body.find(part), std::string::npos) << said[1].body;
  }
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), hello + "garbage", std::string("TrW\x01\xff\xff\xff\xff")}) {
    const Outcome outcome = speak(bytes);
    EXPECT_EQ(outcome.status, 1) << bytes;
    EXPECT_NE(outcome.err.find("no message of a worker"), std::string::npos) << outcome.err;
  }
}

TEST_F(Worker, DiesWithItsCaller) {
  for (const int signal : {SIGKILL, SIGABRT}) {
    Process process(command(kEndless));
    ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\"")) << process.error_text();
    const pid_t worker = worker_of(process);
    ASSERT_GT(worker, 0);
    EXPECT_EQ(files().size(), 1u);
    process.send(signal);
    EXPECT_EQ(process.finish().status, 128 + signal);
    EXPECT_TRUE(wait_until_ended(worker));
    EXPECT_EQ(files(), std::set<std::string>{}) << "it removes what it had begun";
  }
}

TEST_F(Worker, KilledTheProgramSaysSo) {
  Process process(command(kEndless));
  ASSERT_TRUE(wait_for_a_step(process)) << process.error_text();
  ::kill(worker_of(process), SIGKILL);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(std::regex_search(outcome.err,
                                std::regex("tritium: the worker process ended with signal 9 \\(Killed\\) in stage denoise on CPU, step "
                                           "[0-9]+ of [0-9]+, most likely because the system ran out of memory")))
      << outcome.err.substr(outcome.err.size() > 500 ? outcome.err.size() - 500 : 0);
  EXPECT_EQ(files(), std::set<std::string>{});
}

// A terminal sends its signals to both.
TEST_F(Worker, CtrlCReachesBoth) {
  Process process(command(kEndless));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\"")) << process.error_text();
  for (const pid_t pid : {worker_of(process), process.pid()}) ::kill(pid, SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("tritium: interrupted during "), std::string::npos);
  EXPECT_EQ(files(), std::set<std::string>{});
}

// A second signal ends the program at once, also when the worker cannot react.
TEST_F(Worker, ASecondSignalWhileTheWorkerIsStopped) {
  Process process(command(kEndless));
  ASSERT_TRUE(process.wait_for_error_text("\"stage\":\"denoise\"")) << process.error_text();
  const pid_t worker = worker_of(process);
  ::kill(worker, SIGSTOP);
  for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) process.send(signal);
  EXPECT_EQ(process.finish().status, 130);
  EXPECT_TRUE(wait_until_ended(worker));
}

// Everything that people and programs see, without what the clock and the free memory decide.
std::string timeless(std::string text) {
  for (const auto& [what, with] : {std::pair(", [0-9:]+( s)? left", ""), std::pair("\"(available|budget)_bytes\": [0-9]+", "$1"),
                                   std::pair("(\"(load|text|denoise|video|audio|write|inputs)\": )[0-9.e-]+", "$1 0")})
    text = std::regex_replace(text, std::regex(what), with);
  return text;
}

TEST_F(Worker, TheProgramBehavesTheSameWithAndWithoutOne) {
  folder_.write("file", "");
  const Arguments base = {"generate", "a red circle", "--steps", "2", "--seed", "1", "--progress=lines"};
  const Arguments short_one = base + Arguments{"--frames", "5", "-o", "out.mp4"};
  const Arguments commands[] = {
      short_one,
      short_one + Arguments{"--json"},
      base + Arguments{"--frames", "21", "-o", "out.mp4"},
      base + Arguments{"--seconds", "nan", "-o", "out.mp4"},
      base + Arguments{"-o", "out.avi"},
      short_one + Arguments{"--width", "-5"},
      short_one + Arguments{"-m", "file"},
      short_one + Arguments{"-m", "nowhere"},
      short_one + Arguments{"--device", "nowhere"},
      short_one + Arguments{"--wav", "no/folder.wav"},
      short_one + Arguments{"--lora", "file"},
      short_one + Arguments{"--first-frame", "file"},
      {"generate", "\xff", "-o", "out.mp4"},
  };
  for (const Arguments& arguments : commands) {
    std::vector<Outcome> outcomes;
    std::vector<std::set<std::string>> left;
    for (const char* isolate : {"off", "on"}) {
      Command command = this->command(arguments);
      command.environment["TRITIUM_ISOLATE"] = isolate;
      outcomes.push_back(run(command));
      left.push_back(files());
      for (const char* name : {"out.mp4", "out.mp4.json"}) std::filesystem::remove(path(name));
    }
    EXPECT_EQ(outcomes[0].status, outcomes[1].status) << outcomes[1].err;
    EXPECT_EQ(timeless(outcomes[0].out), timeless(outcomes[1].out));
    EXPECT_EQ(timeless(outcomes[0].err), timeless(outcomes[1].err));
    EXPECT_EQ(left[0], left[1]);
  }
}

}  // namespace
}  // namespace tritium::test
