#include "support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace tritium::test {
namespace {

constexpr std::chrono::seconds kLimit{280};  // just below the limit of ctest, so that the output is still shown

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ADD_FAILURE() << "pipe: " << std::strerror(errno);
  return {ends[0], ends[1]};
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (const std::string_view text(*entry);
        text.rfind("TRITIUM_", 0) != 0 && !command.environment.contains(std::string(text.substr(0, text.find('=')))))
      out.emplace_back(text);
  // The same tests can be run with and without a worker process.
  if (const char* isolate = std::getenv("TRITIUM_TEST_ISOLATE"); isolate != nullptr && !command.environment.contains("TRITIUM_ISOLATE"))
    out.push_back(std::string("TRITIUM_ISOLATE=") + isolate);
  for (const auto& [name, value] : command.environment) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In the child, between fork and exec: only system calls.
void become(const Command& command, int in, int out, int err, char** arguments, char** environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGQUIT}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (command.file_size_limit) {
    const rlimit limit{*command.file_size_limit, *command.file_size_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (!command.folder.empty() && ::chdir(command.folder.c_str()) != 0) ::_exit(127);
  if (!command.output.empty()) out = ::open(command.output.c_str(), O_WRONLY | O_CREAT, 0600);
  if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0) ::_exit(127);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

// Appends what can be read now; closes the descriptor at its end.
void drain(int& fd, std::string& to) {
  std::array<char, 65536> buffer{};
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n > 0) {
    to.append(buffer.data(), static_cast<std::size_t>(n));
  } else if (n == 0 || errno != EINTR) {
    ::close(fd);
    fd = -1;
  }
}

}  // namespace

Process::Process(const Command& command) : input_(command.input.value_or("")), limit_(std::chrono::steady_clock::now() + kLimit) {
  std::signal(SIGPIPE, SIG_IGN);  // a child that does not read its input
  const Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  std::vector<std::string> arguments = command.arguments, environment = environment_of(command);
  const auto argument_pointers = pointers(arguments), environment_pointers = pointers(environment);
  pid_ = ::fork();
  if (pid_ == 0)
    become(command, in.read, out.write, err.write, const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()));
  if (pid_ < 0) ADD_FAILURE() << "fork: " << std::strerror(errno);
  for (const int fd : {in.read, out.write, err.write}) ::close(fd);
  in_ = in.write;
  out_ = out.read;
  err_ = err.read;
}

Process::~Process() {
  if (pid_ > 0) {
    send(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_all();
}

void Process::close_all() {
  for (int* fd : {&in_, &out_, &err_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
}

bool Process::pump() {
  if (in_ >= 0 && input_.empty()) {
    ::close(in_);
    in_ = -1;
  }
  if (out_ < 0 && err_ < 0) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) {
    outcome_.timed_out = true;
    return false;
  }
  std::array<pollfd, 3> fds{{{out_, POLLIN, 0}, {err_, POLLIN, 0}, {in_, POLLOUT, 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
  if (fds[0].revents != 0) drain(out_, outcome_.out);
  if (fds[1].revents != 0) drain(err_, outcome_.err);
  if (fds[2].revents != 0) {
    const ssize_t n = ::write(in_, input_.data(), std::min<std::size_t>(input_.size(), PIPE_BUF));
    input_.erase(0, n > 0 ? static_cast<std::size_t>(n) : input_.size());
  }
  return true;
}

bool Process::wait_for_error_text(const std::string& text) {
  while (outcome_.err.find(text) == std::string::npos)
    if (!pump()) return false;
  return true;
}

bool Process::wait_for_more_error_text() {
  const std::size_t before = outcome_.err.size();
  while (outcome_.err.size() == before)
    if (!pump()) return false;
  return true;
}

void Process::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

Outcome Process::finish() {
  while (pump()) continue;
  if (outcome_.timed_out) {
    send(SIGKILL);
    ADD_FAILURE() << "the program did not end; so far it said: " << outcome_.err;
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  close_all();
  outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome_;
}

Outcome run(const Command& command) { return Process(command).finish(); }

namespace {

// State and parent from /proc/PID/stat, behind the name in parentheses, which may hold anything; 'X' when there is no such process.
std::pair<char, pid_t> state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t at = text.rfind(')');
  if (at == std::string::npos) return {'X', 0};
  std::istringstream rest(text.substr(at + 1));
  char state = 'X';
  pid_t parent = 0;
  rest >> state >> parent;
  return {state, parent};
}

}  // namespace

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (const auto [state, its_parent] = state_of(name); its_parent == parent && state != 'Z' && state != 'X')
      out.push_back(std::stoi(name));
  }
  return out;
}

bool wait_until_ended(pid_t pid) {
  const auto limit = std::chrono::steady_clock::now() + kLimit / 4;
  for (;;) {
    if (const char state = state_of(std::to_string(pid)).first; state == 'Z' || state == 'X') return true;
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace tritium::test
