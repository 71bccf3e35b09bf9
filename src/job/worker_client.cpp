#include "job/worker_client.h"

#include "base/system.h"
#include "base/try.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cerrno>

namespace tritium {
namespace {

constexpr int kMillisecondsBetweenLooks = 50;
constexpr double kSecondsUntilHello = 60;  // programs are read from slow disks
constexpr double kSecondsToEnd = 5;        // a killed process, or one that closed the stream
// At most so much counts between two looks: while this process is stopped, or busy in a callback, the worker is not to blame.
constexpr double kLongestLook = 0.2;

}  // namespace

WorkerClient::WorkerClient(std::unique_ptr<WorkerProcess> process, const IsolationOptions& options)
    : process_(std::move(process)), stall_seconds_(options.stall_seconds), grace_seconds_(options.grace_seconds) {}

Result<std::unique_ptr<WorkerClient>> WorkerClient::start(const IsolationOptions& options, std::string* words) {
  TRITIUM_TRY_ASSIGN(auto process, WorkerProcess::start(options.command, options.pass_on_stderr));
  std::unique_ptr<WorkerClient> client(new WorkerClient(std::move(process), options));
  client->moment_.doing = "starting";
  if (client->stall_seconds_ <= 0) client->stall_seconds_ = kSecondsUntilHello;
  if (const auto greeted = client->greet(); !greeted.ok()) {
    *words = client->last_words();
    return greeted.error();
  }
  client->stall_seconds_ = options.stall_seconds;
  return client;
}

Result<void> WorkerClient::greet() {
  TRITIUM_TRY_ASSIGN(const WorkerFrame hello, receive(nullptr));
  if (const auto same = check_hello(hello); !same.ok()) return confused(same.error());
  TRITIUM_TRY_ASSIGN(const std::string frame, encode_frame(FrameType::hello, hello_body()));
  return send(frame, nullptr);
}

Result<void> WorkerClient::request(FrameType type, const std::string& body, const std::string& doing, const CancelToken* cancel) {
  moment_ = {doing, {}, {}};
  sent_ = cancel_sent_ = false;
  silent_ = cancelled_ = 0;
  TRITIUM_TRY_ASSIGN(const std::string frame, encode_frame(type, body));
  TRITIUM_TRY(send(frame, cancel));
  sent_ = true;
  return {};
}

Result<void> WorkerClient::send(std::string_view bytes, const CancelToken* cancel) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(process_->socket(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      silent_ = 0;
      continue;
    }
    if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return died(cancel);
    pollfd wait{process_->socket(), POLLOUT, 0};
    ::poll(&wait, 1, kMillisecondsBetweenLooks);
    TRITIUM_TRY(check(cancel));
  }
  return {};
}

Result<WorkerFrame> WorkerClient::receive(const CancelToken* cancel) {
  last_look_ = monotonic_seconds();
  std::array<char, 65536> buffer;
  for (;;) {
    TRITIUM_TRY(check(cancel));
    auto frame = frames_.next();
    if (!frame.ok()) return confused(frame.error());
    if (frame->has_value()) return std::move(**frame);
    pollfd wait{process_->socket(), POLLIN, 0};
    const bool over = process_->wait(0).has_value();  // asked before looking: what a dead worker said is still read
    if (::poll(&wait, 1, over ? 0 : kMillisecondsBetweenLooks) <= 0) {
      if (over) return died(cancel);  // another process holds the stream open
      continue;
    }
    const ssize_t n = ::recv(process_->socket(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (n <= 0) return died(cancel);
    frames_.feed({buffer.data(), static_cast<std::size_t>(n)});
    silent_ = 0;
  }
}

Result<void> WorkerClient::check(const CancelToken* cancel) {
  const double now = monotonic_seconds(), elapsed = std::min(now - last_look_, kLongestLook);
  last_look_ = now;
  if (cancel == nullptr || !cancel->cancelled()) {
    silent_ += elapsed;
    if (stall_seconds_ <= 0 || silent_ <= stall_seconds_) return {};
    end();
    return worker_stalled(stall_seconds_, moment_, process_->last_words());
  }
  if (sent_ && !cancel_sent_)
    if (const auto frame = encode_frame(FrameType::cancel, "{}"); frame.ok())
      // So short that it goes as a whole or, while the worker does not read, not at all.
      cancel_sent_ = ::send(process_->socket(), frame->data(), frame->size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
  cancelled_ += elapsed;
  if (cancelled_ <= grace_seconds_) return {};
  end();
  return worker_interrupted(moment_);
}

Error WorkerClient::died(const CancelToken* cancel) {
  const auto ending = process_->wait(kSecondsToEnd);
  died_ = true;
  end();
  if (cancel != nullptr && cancel->cancelled()) return worker_interrupted(moment_);
  return worker_died(ending, moment_, process_->last_words());
}

Error WorkerClient::confused(const Error& problem) {
  end();
  return worker_confused(problem, moment_, process_->last_words());
}

Error WorkerClient::unexpected(const WorkerFrame& frame) {
  return confused({ErrorCode::failure, fmt::format("a message of type {} came out of turn", static_cast<int>(frame.type)), "", ""});
}

void WorkerClient::end() {
  over_ = true;
  process_->kill();
  (void)process_->wait(kSecondsToEnd);
}

}  // namespace tritium
