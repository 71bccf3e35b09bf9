// Errors are values: every operation that can fail returns Result<T>.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace tritium {

// The value of each code is the exit status of the command line.
enum class ErrorCode : int {
  failure = 1,        // anything without a more precise code: I/O, an internal contradiction
  usage = 2,          // the request itself is invalid
  model = 3,          // a model or weight file is missing, damaged or of the wrong kind
  does_not_fit = 4,   // memory or disk space
  device = 5,         // a compute device failed or cannot run the model
  rejected = 6,       // the output was made but is not acceptable (black, silent, not finite, ...)
  not_found = 7,      // what was named does not exist, or not for this caller
  conflict = 8,       // the state of what was named does not allow it
  busy = 9,           // not now: a queue is full or a service is shutting down; the same may work later
  interrupted = 130,  // cancelled by the user
};

struct Error {
  ErrorCode code = ErrorCode::failure;
  std::string message;  // what happened, naming file, value and range
  std::string field;    // the request field or tensor concerned, if any
  std::string hint;     // what to do about it, if known

  // "field: message (hint)" on one line.
  [[nodiscard]] std::string text() const {
    std::string out = field.empty() ? message : field + ": " + message;
    if (!hint.empty()) out += " (" + hint + ")";
    return out;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Precondition: ok(). A violated precondition is a bug and ends the process.
  T& value() & {
    require_ok();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    require_ok();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    require_ok();
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !ok().
  const Error& error() const& {
    if (ok()) std::abort();
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    if (ok()) std::abort();
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  void require_ok() const {
    if (!ok()) std::abort();
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  [[nodiscard]] bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& {
    if (ok_) std::abort();
    return error_;
  }
  Error&& error() && {
    if (ok_) std::abort();
    return std::move(error_);
  }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace tritium
