// Running a program: what it says on both streams, how it ends, and signals at a chosen moment.
#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tritium::test {

struct Command {
  std::vector<std::string> arguments;              // the program first
  std::map<std::string, std::string> environment;  // added to the test's own, from which all TRITIUM_* are taken away; but
                                                   // TRITIUM_TEST_ISOLATE becomes TRITIUM_ISOLATE
  std::optional<std::string> input;                // standard input; empty (and not a terminal) when absent
  std::filesystem::path folder;                    // to run in; the test's own when empty
  std::optional<std::uint64_t> file_size_limit;    // RLIMIT_FSIZE, bytes
  std::filesystem::path output;                    // a file that takes standard output instead of Outcome::out
};

struct Outcome {
  int status = -1;  // exit status, or 128 + number of the signal that ended it
  bool timed_out = false;
  std::string out, err;
};

// One child process. It starts with every signal at its default, and dies with the test.
class Process {
 public:
  explicit Process(const Command& command);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // a child that still runs is killed

  // Waits until standard error contains `text`; false when it ended, or time ran out, without it.
  bool wait_for_error_text(const std::string& text);
  bool wait_for_more_error_text();
  void send(int signal) const;
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::string& error_text() const { return outcome_.err; }
  // Waits for the end. The limit is for tests that hang; no test expects anything about time.
  Outcome finish();

 private:
  // Moves what is there between pipes and strings. False when both outputs are closed or time is up.
  bool pump();
  void close_all();

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string input_;
  std::chrono::steady_clock::time_point limit_;
  Outcome outcome_;
};

Outcome run(const Command& command);

// Processes that `parent` started and that have not ended.
std::vector<pid_t> children_of(pid_t parent);
// Waits until a process has ended, whoever its parent is by then; false when time ran out.
bool wait_until_ended(pid_t pid);

}  // namespace tritium::test
