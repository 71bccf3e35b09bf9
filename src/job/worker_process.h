// A child process that speaks over a socket: starting, ending, and what it said on standard error.
//
// The child's standard input and output are one end of the socket. It ends with this process: it gets SIGTERM when this process dies, and
// the end of its input in any case. It does not take the signals that a terminal sends to a whole group of processes (Ctrl-C, hang-up):
// whoever started it decides.
#pragma once

#include <tritium/result.h>

#include <sys/types.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tritium {

// How a process ended.
struct Ending {
  bool by_signal = false;
  int number = 0;  // of the signal, or the exit status

  // "signal 9 (Killed)", "status 5"
  [[nodiscard]] std::string text() const;
};

class WorkerProcess {
 public:
  // `command`: the program and its arguments; a program without a slash is not searched for. `pass_on_stderr`: what the child says on
  // standard error also goes to that of this process, as it comes. Error (failure): it could not be started.
  static Result<std::unique_ptr<WorkerProcess>> start(const std::vector<std::string>& command, bool pass_on_stderr);
  // Closes the socket, which tells the child to end, and kills it when it has not ended after a short time.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] pid_t pid() const;
  void kill() const;  // SIGKILL, which also ends a stopped process

  // Whether the other end of the socket is closed: the process has ended, or is about to.
  [[nodiscard]] bool hung_up() const;

  // Waits for the end; none when it did not come in time. A process in the middle of a call to a driver that hangs cannot be ended.
  [[nodiscard]] std::optional<Ending> wait(double seconds) const;

  // The end of what it said on standard error, at most 64 KiB. Complete once it has ended.
  [[nodiscard]] std::string last_words() const;

 private:
  struct State;
  WorkerProcess(int socket, std::shared_ptr<State> state) : socket_(socket), state_(std::move(state)) {}
  int socket_ = -1;
  std::shared_ptr<State> state_;  // shared with the thread that watches over the child
};

// Ends all children at once: a second to remove their temporary files, then SIGKILL. For a signal handler that is about to end the
// process; safe there.
void end_workers_now() noexcept;

}  // namespace tritium
