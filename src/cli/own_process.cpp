#include "cli/own_process.h"

#include "base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace tritium::cli {

Result<ProcessEnd> run_own_program(const std::vector<std::string>& arguments, const std::function<void(const std::string&)>& output,
                                   const CancelToken& cancel) {
  std::vector<std::string> all = {"tritium"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv(all.size() + 1, nullptr);  // ends with a null pointer
  std::transform(all.begin(), all.end(), argv.begin(), [](std::string& argument) { return argument.data(); });
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{ErrorCode::failure, "no pipe could be made: " + system_message(errno), "", ""};
  const pid_t child = ::fork();
  if (child == 0) {  // only system calls from here on
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return Error{ErrorCode::failure, "no process could be started: " + system_message(errno), "", ""};
  }
  std::array<char, 4096> piece{};
  bool told = false;
  for (;;) {
    if (cancel.cancelled() && !told) {
      ::kill(child, SIGTERM);
      told = true;
    }
    pollfd wanted{ends[0], POLLIN, 0};
    constexpr int kMilliseconds = 200;
    if (::poll(&wanted, 1, kMilliseconds) <= 0) continue;
    const ssize_t got = ::read(ends[0], piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    output(std::string(piece.data(), static_cast<std::size_t>(got)));
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFSIGNALED(status) ? ProcessEnd{-1, WTERMSIG(status)} : ProcessEnd{WEXITSTATUS(status), 0};
}

}  // namespace tritium::cli
