#include "job/worker_main.h"

#include "base/files.h"
#include "base/try.h"
#include "device/abort_report.h"
#include "job/worker_codec.h"
#include "job/worker_protocol.h"

#include <fcntl.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

namespace tritium {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void end_at_once(int status) {
  remove_temporary_files();
  _exit(status);
}

// Sent by the kernel when the caller dies, and by whoever ends the service.
void on_termination(int signal) { end_at_once(128 + signal); }

void set_signals() {
  // A terminal sends these to caller and worker; the caller decides and says so.
  for (const int signal : {SIGINT, SIGHUP, SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  std::signal(SIGTERM, on_termination);
}

// The descriptors of the protocol become private; what is printed to standard output by mistake shall not get among the messages.
struct Descriptors {
  int in, out;
};
Descriptors take_over(int in, int out) {
  constexpr int kFirstPrivate = 10;
  const Descriptors own{::fcntl(in, F_DUPFD_CLOEXEC, kFirstPrivate), ::fcntl(out, F_DUPFD_CLOEXEC, kFirstPrivate)};
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null > STDERR_FILENO) {
    ::dup2(null, STDIN_FILENO);
    ::close(null);
  }
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const int fd : {in, out})
    if (fd > STDERR_FILENO) ::close(fd);
  return own;
}

struct Work {
  WorkerFrame frame;
  std::shared_ptr<CancelToken> cancel;
};

class Worker {
 public:
  explicit Worker(Descriptors own) : in_(own.in), out_(own.out) {}

  int run() {
    send(FrameType::hello, hello_body());
    std::thread reader([this] { read(); });
    int status = 0;
    while (auto work = next()) {
      const Result<void> done = serve(*work);
      if (done.ok()) continue;
      answer(done.error());
      std::fprintf(stderr, "tritium: %s\n", done.error().text().c_str());
      status = 1;
      break;
    }
    engine_.reset();
    if (status != 0) _exit(status);  // the reader may wait for a caller that waits for us
    reader.join();
    return broken_ ? 1 : 0;
  }

 private:
  // On a thread of its own, so that a caller's cancelling and its end are noticed while something is computed.
  void read() {
    FrameReader frames;
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t n = ::read(in_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return close(/*broken=*/false);
      frames.feed({buffer.data(), static_cast<std::size_t>(n)});
      for (;;) {
        auto frame = frames.next();
        if (!frame.ok()) {
          std::fprintf(stderr, "tritium: %s\n", frame.error().text().c_str());
          return close(/*broken=*/true);
        }
        if (!frame->has_value()) break;
        take(std::move(**frame));
      }
    }
  }

  void take(WorkerFrame frame) {
    const std::lock_guard lock(mutex_);
    if (frame.type == FrameType::cancel) {
      if (current_) current_->cancel();
      return;
    }
    current_ = std::make_shared<CancelToken>();
    waiting_.push_back({std::move(frame), current_});
    changed_.notify_all();
  }

  void close(bool broken) {
    const std::lock_guard lock(mutex_);
    if (computing_) end_at_once(static_cast<int>(ErrorCode::interrupted));
    closed_ = true;
    broken_ = broken;
    changed_.notify_all();
  }

  std::optional<Work> next() {
    std::unique_lock lock(mutex_);
    computing_ = false;
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (waiting_.empty()) return {};
    Work out = std::move(waiting_.front());
    waiting_.pop_front();
    computing_ = out.frame.type == FrameType::generate;
    if (computing_ && closed_) return {};  // for nobody
    return out;
  }

  // A caller that is gone is noticed by the reader.
  void send(FrameType type, const std::string& body) {
    const auto frame = encode_frame(type, body);
    if (!frame.ok())
      return type == FrameType::progress || type == FrameType::preview
                 ? void()
                 : send(FrameType::failed, encode_message(FailedMessage{frame.error()}));
    const std::lock_guard lock(sending_);
    for (std::string_view rest = *frame; !rest.empty();) {
      const ssize_t n = ::write(out_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  // The answer to a request. The caller may go away as soon as it has it.
  void answer(FrameType type, const std::string& body) {
    {
      const std::lock_guard lock(mutex_);
      computing_ = false;
    }
    send(type, body);
  }
  void answer(const Error& error) { answer(FrameType::failed, encode_message(FailedMessage{error})); }

  // Errors are of the conversation, not of the work: they end the worker.
  Result<void> serve(const Work& work) {
    if (!greeted_) {
      TRITIUM_TRY(check_hello(work.frame));
      greeted_ = true;
      return {};
    }
    try {
      switch (work.frame.type) {
        case FrameType::open:
          return open(work.frame.body);
        case FrameType::plan:
          return plan(work.frame.body);
        case FrameType::generate:
          return generate(work);
        default:
          return Error{ErrorCode::failure, "a message came that is not for a worker", "", ""};
      }
    } catch (const std::bad_alloc&) {
      answer({ErrorCode::does_not_fit, "out of memory", "", "choose a smaller size or fewer frames; see 'tritium plan'"});
    } catch (const std::exception& e) {
      answer({ErrorCode::failure, std::string("unexpected error: ") + e.what(), "", "please report this"});
    }
    return {};
  }

  // Where the caller stands. A folder that is gone is of no concern to absolute names, and relative ones are refused where they are used.
  static void enter(const fs::path& folder) {
    std::error_code ignored;
    if (!folder.empty()) fs::current_path(folder, ignored);
  }

  Result<void> open(const std::string& body) {
    TRITIUM_TRY_ASSIGN(const OpenMessage message, decode_message<OpenMessage>(body));
    enter(message.folder);
    engine_.reset();
    auto opened = Engine::open(message.options);
    if (!opened.ok()) {
      answer(opened.error());
      return {};
    }
    const auto budgets = (*opened)->memory_budgets();
    if (!budgets.ok()) {
      answer(budgets.error());
      return {};
    }
    engine_ = std::move(*opened);
    answer(FrameType::opened, encode_message(OpenedMessage{engine_->model_json(), engine_->model_text(), *budgets}));
    return {};
  }

  Result<void> check_open() const {
    if (engine_) return {};
    return Error{ErrorCode::failure, "a request came before a model was opened", "", ""};
  }

  Result<void> plan(const std::string& body) {
    TRITIUM_TRY(check_open());
    TRITIUM_TRY_ASSIGN(const PlanMessage message, decode_message<PlanMessage>(body));
    enter(message.folder);
    const auto made = engine_->plan(message.request);
    if (made.ok())
      answer(FrameType::planned, encode_message(*made));
    else
      answer(made.error());
    return {};
  }

  Result<void> generate(const Work& work) {
    TRITIUM_TRY(check_open());
    TRITIUM_TRY_ASSIGN(const GenerateMessage message, decode_message<GenerateMessage>(work.frame.body));
    enter(message.folder);
    if (message.cancelled) work.cancel->cancel();
    GenerateHooks hooks{[this](const Plan& p) { send(FrameType::planned, encode_message(p)); },
                        [this](const Progress& p) { send(FrameType::progress, encode_message(p)); }};
    if (message.previews) hooks.preview = [this](const std::string& jpeg) { send(FrameType::preview, jpeg); };
    const auto made = engine_->generate(message.request, message.output, hooks, work.cancel.get());
    if (made.ok())
      answer(FrameType::done, encode_message(*made));
    else
      answer(made.error());
    return {};
  }

  int in_, out_;
  std::mutex sending_;
  std::unique_ptr<Engine> engine_;
  bool greeted_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::shared_ptr<CancelToken> current_;  // of the request that came last
  bool computing_ = false, closed_ = false, broken_ = false;
};

}  // namespace

int worker_main(int in, int out) {
  set_signals();
  exit_on_abort(static_cast<int>(ErrorCode::device));
  const Descriptors own = take_over(in, out);
  if (own.in < 0 || own.out < 0) {
    std::fprintf(stderr, "tritium: the descriptors to speak over are not open\n");
    return static_cast<int>(ErrorCode::usage);
  }
  return Worker(own).run();
}

}  // namespace tritium
