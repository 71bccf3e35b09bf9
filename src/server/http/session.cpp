#include "server/http/session.h"

#include "base/system.h"

#include <fmt/format.h>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

namespace tritium::http {
namespace {

constexpr std::size_t kHeaderPiece = 8 << 10, kBodyPiece = 64 << 10;
constexpr double kMinBytesPerSecond = 1024;

}  // namespace

Session::Session(std::shared_ptr<ServerState> state, std::shared_ptr<Transport> transport, std::string remote)
    : state_(std::move(state)),
      transport_(std::move(transport)),
      remote_(std::move(remote)),
      timer_(transport_->executor()),
      heartbeat_timer_(transport_->executor()) {}

Session::~Session() {
  const std::lock_guard lock(state_->mutex);
  state_->sessions.erase(this);
  state_->session_gone.notify_all();
}

void Session::start() {
  net::dispatch(transport_->executor(), [self = shared_from_this()] {
    self->arm(self->state_->options.limits.header_seconds);
    self->transport_->handshake([self](error_code error, std::size_t) {
      if (error || self->phase_ == Phase::closed) return self->close();
      self->next_request();
    });
  });
}

void Session::stop() {
  net::post(transport_->executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::idle || self->phase_ == Phase::handshake) self->close();
    if (self->channel_ && self->phase_ == Phase::streaming) self->channel_->close();
    if (self->link_) self->link_->stop();
  });
}

void Session::abort() {
  net::post(transport_->executor(), [self = shared_from_this()] { self->close(); });
}

void Session::next_request() {
  exchange_ = std::make_shared<Exchange>(*state_);
  exchange_->request.remote = remote_;
  exchange_->request.id = new_request_id();
  phase_ = Phase::idle;
  if (state_->stopping) return close();
  arm(state_->options.limits.idle_seconds);
  advance();
}

void Session::read_more() {
  if (reading_) return;
  reading_ = true;
  scratch_.resize(phase_ == Phase::body ? kBodyPiece : kHeaderPiece);
  transport_->read_some(net::buffer(scratch_),
                        [self = shared_from_this()](error_code error, std::size_t count) { self->came(error, count); });
}

void Session::came(error_code error, std::size_t count) {
  reading_ = false;
  switch (phase_) {
    case Phase::idle:
    case Phase::header:
    case Phase::body:
      if (error) return close();
      input_.append(scratch_.data(), count);
      return advance();
    case Phase::streaming:
      if (error) return close();
      input_.append(scratch_.data(), count);  // the next request, which waits for the end of this answer
      if (input_.size() <= state_->options.limits.header_bytes) read_more();
      return;
    case Phase::lingering:
      if (error) return close();
      discarded_ += count;
      return discard();
    default:
      if (!error) input_.append(scratch_.data(), count);
  }
}

void Session::advance() {
  if (phase_ == Phase::body) return read_body();
  const RequestParser::State result = exchange_->parser.read(input_);
  if (phase_ == Phase::idle && exchange_->parser.started()) {
    phase_ = Phase::header;
    exchange_->begin = monotonic_seconds();
    arm(state_->options.limits.header_seconds);
  }
  switch (result) {
    case RequestParser::State::more:
      return read_more();
    case RequestParser::State::failed: {
      const auto& problem = exchange_->parser.problem();
      return refuse_now({problem.status, {ErrorCode::usage, problem.message, "", ""}});
    }
    default:
      header_complete();
  }
}

void Session::header_complete() {
  ++state_->requests;
  if (auto response = check_header(*state_, *exchange_)) {
    if (exchange_->parser.has_body()) exchange_->keep_alive = false;
    return respond(std::move(*response));
  }
  if (!exchange_->parser.has_body()) return body_complete();
  phase_ = Phase::body;
  exchange_->parser.on_body([exchange = exchange_.get(), limit = state_->options.limits.body_bytes](std::string_view bytes) {
    exchange->body_bytes += bytes.size();
    exchange->body_refusal = exchange->body_bytes > limit ? too_large("the body of the request", limit) : exchange->body->write(bytes);
    return !exchange->body_refusal;
  });
  arm(state_->options.limits.body_seconds);
  if (!exchange_->expects_continue || !input_.empty()) return read_body();
  head_ = "HTTP/1.1 100 Continue\r\n\r\n";
  write({net::buffer(head_)}, [this] {
    arm(state_->options.limits.body_seconds);
    read_body();
  });
}

void Session::read_body() {
  switch (exchange_->parser.read(input_)) {
    case RequestParser::State::done:
      return body_complete();
    case RequestParser::State::failed: {
      const auto& problem = exchange_->parser.problem();
      return refuse_now(exchange_->body_refusal.value_or(Refusal{problem.status, {ErrorCode::usage, problem.message, "", ""}}));
    }
    default:
      break;
  }
  const double seconds = monotonic_seconds() - exchange_->begin, grace = state_->options.limits.body_seconds;
  if (seconds > grace && static_cast<double>(exchange_->body_bytes) < kMinBytesPerSecond * (seconds - grace)) return timed_out();
  arm(grace);
  read_more();
}

void Session::body_complete() {
  if (exchange_->body) {
    if (auto refusal = exchange_->body->finish()) return respond(refuse(*state_, exchange_->request, *refusal));
    exchange_->body.reset();
  }
  phase_ = Phase::handling;
  arm(0);
  scratch_ = {};
  const bool accepted = state_->pool.submit([self = shared_from_this(), exchange = exchange_] {
    auto response = std::make_shared<HttpResponse>(call_handler(*self->state_, *exchange));
    net::post(self->transport_->executor(), [self, response] {
      if (self->phase_ == Phase::handling) self->respond(std::move(*response));
    });
  });
  if (accepted) return;
  respond(refuse(*state_, exchange_->request,
                 {503, {ErrorCode::busy, "too many requests are waiting to be answered", "", "try again in some seconds"}}));
}

void Session::refuse_now(const Refusal& refusal) {
  HttpRequest& request = exchange_->request;
  if (request.path.empty()) {  // the shape of the error depends on it
    request.method = exchange_->parser.method();
    auto target = parse_target(exchange_->parser.target(), state_->options.limits.form_fields);
    if (target.ok()) request.path = std::move(target->path);
  }
  exchange_->keep_alive = false;
  respond(refuse(*state_, exchange_->request, refusal));
}

// 0: no limit.
void Session::arm(double seconds) {
  const std::uint64_t turn = ++timer_turn_;
  if (seconds <= 0) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6)));
  timer_.async_wait([weak = weak_from_this(), turn](error_code error) {
    const auto self = weak.lock();
    if (self && !error && turn == self->timer_turn_) self->timed_out();
  });
}

void Session::timed_out() {
  if ((phase_ != Phase::header && phase_ != Phase::body) || writing_) return close();
  const char* what = phase_ == Phase::header ? "the header" : "the body";
  refuse_now(
      {408, {ErrorCode::usage, fmt::format("{} of the request did not come in time", what), "", "send it faster, or in smaller parts"}});
}

void Session::close() {
  const auto kept = keep_;
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::sending || phase_ == Phase::streaming) log();
  phase_ = Phase::closed;
  ++timer_turn_;
  timer_.cancel();
  heartbeat_timer_.cancel();
  transport_->close();
  if (channel_) channel_->end();
  channel_.reset();
  keep_.reset();
}

void Session::log() {
  if (!exchange_ || !state_->options.access_log) return;
  const HttpRequest& request = exchange_->request;
  const double begin = exchange_->begin > 0 ? exchange_->begin : monotonic_seconds();
  try {
    state_->options.access_log({request.id, request.owner, remote_, request.method.empty() ? "-" : request.method,
                                request.path.empty() ? "-" : request.path, exchange_->status, exchange_->sent,
                                monotonic_seconds() - begin});
  } catch (...) {  // a log that fails must not end the answer
  }
}

// Channels may be held longer than the server lives: they keep nothing of it but the way to ask whether the session is still there.
std::function<void()> Session::waker() {
  return [weak = weak_from_this()] {
    const auto alive = weak.lock();
    if (!alive) return;
    net::post(alive->transport_->executor(), [weak] {
      const auto self = weak.lock();
      if (!self) return;
      if (self->link_)
        self->link_->flush();
      else if (self->phase_ == Phase::streaming)
        self->flush_stream();
    });
  };
}

}  // namespace tritium::http
