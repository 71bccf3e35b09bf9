#include "job/worker_process.h"

#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tritium {
namespace {

constexpr std::size_t kKeptBytes = 64 << 10;  // of standard error
constexpr double kSecondsToEnd = 5;           // after the socket was closed
constexpr unsigned kCloseRangeOnExec = 4;     // CLOSE_RANGE_CLOEXEC of linux/close_range.h

// Children that run, where a signal handler can see them. One beyond the last slot is only not ended by end_workers_now().
std::array<std::atomic<pid_t>, 64> running{};

void list_running(pid_t pid) {
  for (auto& slot : running)
    if (pid_t none = 0; slot.compare_exchange_strong(none, pid)) return;
}
void unlist_running(pid_t pid) {
  for (auto& slot : running)
    if (pid_t expected = pid; slot.compare_exchange_strong(expected, 0)) return;
}

// Has ended, but its number is not free yet.
bool is_over(pid_t pid, int flags) noexcept {
  siginfo_t info{};
  int result = 0;
  while ((result = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | flags)) < 0 && errno == EINTR) continue;
  return result < 0 || info.si_pid == pid;
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_;
};

struct Pair {
  Descriptor first, second;
};

// Never one of the standard descriptors, which may have been closed: what this process prints must not get among the messages.
std::optional<Pair> make_pair_of(int (*make)(int*)) {
  std::array<int, 2> ends{-1, -1};
  if (make(ends.data()) != 0) return {};
  for (int& end : ends) {
    if (end > STDERR_FILENO) continue;
    const int low = std::exchange(end, ::fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    ::close(low);
  }
  Pair out{Descriptor(ends[0]), Descriptor(ends[1])};
  if (ends[0] < 0 || ends[1] < 0) return {};
  return out;
}
int make_pipe(int* ends) { return ::pipe2(ends, O_CLOEXEC); }
int make_socket(int* ends) { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends); }

// In the child, between fork and exec: only system calls. Does not return.
[[noreturn]] void become(char** arguments, pid_t parent, int socket, int err, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(0);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int signal : {SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Nothing else is handed down: a socket that this process listens on would stay open with the child. Before Linux 5.11 it has to see to
  // that itself.
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, kCloseRangeOnExec);
  if (::dup2(socket, STDIN_FILENO) >= 0 && ::dup2(socket, STDOUT_FILENO) >= 0 && ::dup2(err, STDERR_FILENO) >= 0)
    ::execv(arguments[0], arguments);
  const int code = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &code, sizeof code);
  ::_exit(127);
}

}  // namespace

std::string Ending::text() const {
  if (!by_signal) return fmt::format("status {}", number);
  const char* name = ::strsignal(number);
  return fmt::format("signal {} ({})", number, name == nullptr ? "unknown" : name);
}

struct WorkerProcess::State {
  std::mutex mutex;
  std::condition_variable changed;
  pid_t pid = 0;
  std::optional<int> start_error;  // 0: started
  std::optional<Ending> ending;
  std::string words;

  void heard(const char* bytes, std::size_t count) {
    const std::lock_guard lock(mutex);
    words.append(bytes, count);
    if (words.size() > 2 * kKeptBytes) words.erase(0, words.size() - kKeptBytes);
  }

  // Passes on what can be read now; false at the end.
  bool listen(int fd, bool pass_on) {
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (n == 0) return false;
    heard(buffer.data(), static_cast<std::size_t>(n));
    [[maybe_unused]] const ssize_t written = pass_on ? ::write(STDERR_FILENO, buffer.data(), static_cast<std::size_t>(n)) : 0;
    return true;
  }

  // Until the child ends. Its standard error may be held open longer, by processes that it started, or closed earlier.
  void watch(int err, bool pass_on) {
    Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    constexpr int kMillisecondsBetweenLooks = 50;  // where the kernel has no such descriptors
    while (!is_over(pid, WNOHANG)) {
      std::array<pollfd, 2> fds{{{err, POLLIN, 0}, {end.get(), POLLIN, 0}}};
      ::poll(fds.data(), fds.size(), end.get() >= 0 ? -1 : kMillisecondsBetweenLooks);
      if (fds[0].revents != 0 && !listen(err, pass_on)) err = -1;
    }
    for (pollfd last{err, POLLIN, 0}; err >= 0 && ::poll(&last, 1, 0) > 0 && listen(err, pass_on);) continue;
  }

  void finish() {
    const std::lock_guard lock(mutex);  // nobody may signal it while its number becomes free for another process
    unlist_running(pid);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    ending = WIFSIGNALED(status) ? Ending{true, WTERMSIG(status)} : Ending{false, WEXITSTATUS(status)};
    changed.notify_all();
  }

  void started(int code) {
    const std::lock_guard lock(mutex);
    start_error = code;
    changed.notify_all();
  }

  // The whole life of the child, on a thread of its own: the child's "parent died" signal comes when the thread that started it ends.
  void live(std::vector<std::string> command, Descriptor socket, bool pass_on) {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);  // they are for the program's own threads
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    auto err = make_pair_of(make_pipe), report = make_pair_of(make_pipe);
    if (!err || !report) return started(errno);
    const pid_t self = ::getpid(), child = ::fork();
    if (child == 0) become(arguments.data(), self, socket.get(), err->second.get(), report->second.get());
    if (child < 0) return started(errno);
    pid = child;
    list_running(child);
    socket.close();
    err->second.close();
    report->second.close();
    int code = 0;
    ssize_t n = 0;
    while ((n = ::read(report->first.get(), &code, sizeof code)) < 0 && errno == EINTR) continue;
    started(n == sizeof code ? code : 0);
    ::fcntl(err->first.get(), F_SETFL, O_NONBLOCK);
    watch(err->first.get(), pass_on);
    finish();
  }
};

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const std::vector<std::string>& command, bool pass_on_stderr) {
  const auto refused = [&](int code) {
    return Error{ErrorCode::failure, fmt::format("the worker process '{}' cannot be started: {}", command.front(), system_message(code)),
                 "", ""};
  };
  auto socket = make_pair_of(make_socket);
  if (!socket) return refused(errno);
  auto state = std::make_shared<State>();
  try {
    std::thread([state, command, pass_on_stderr, theirs = Descriptor(socket->second.release())]() mutable {
      state->live(std::move(command), std::move(theirs), pass_on_stderr);
    }).detach();
  } catch (const std::system_error& e) { return refused(e.code().value()); }
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->start_error.has_value(); });
  if (const int code = *state->start_error; code != 0) return refused(code);
  lock.unlock();
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(socket->first.release(), std::move(state)));
}

WorkerProcess::~WorkerProcess() {
  ::close(socket_);
  if (wait(kSecondsToEnd)) return;
  kill();
  (void)wait(kSecondsToEnd);
}

pid_t WorkerProcess::pid() const { return state_->pid; }

void WorkerProcess::kill() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->ending) ::kill(state_->pid, SIGKILL);
}

bool WorkerProcess::hung_up() const {
  pollfd look{socket_, POLLRDHUP, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

std::optional<Ending> WorkerProcess::wait(double seconds) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return state_->ending.has_value(); });
  return state_->ending;
}

std::string WorkerProcess::last_words() const {
  const std::lock_guard lock(state_->mutex);
  const std::string& words = state_->words;
  return words.size() > kKeptBytes ? words.substr(words.size() - kKeptBytes) : words;
}

void end_workers_now() noexcept {
  for (auto& slot : running)
    if (const pid_t pid = slot; pid > 0) ::kill(pid, SIGTERM);
  constexpr int kMilliseconds = 1000, kBetweenLooks = 5;
  int waited = 0;
  for (auto& slot : running) {
    const pid_t pid = slot;
    for (; pid > 0 && waited < kMilliseconds && !is_over(pid, WNOHANG); waited += kBetweenLooks) ::poll(nullptr, 0, kBetweenLooks);
    if (pid > 0 && slot == pid) ::kill(pid, SIGKILL);
  }
}

}  // namespace tritium
