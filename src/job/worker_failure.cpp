#include "job/worker_failure.h"

#include <fmt/format.h>
#include <csignal>
#include <vector>

namespace tritium {
namespace {

constexpr std::size_t kShownLines = 5, kShownBytes = 1000;

std::string with_words(std::string message, const std::string& words) {
  const std::string lines = last_lines(words);
  return lines.empty() ? message : message + "; the last it said: " + lines;
}

ErrorCode code_of(const std::optional<Ending>& ending) {
  if (!ending) return ErrorCode::device;
  if (ending->by_signal) return ending->number == SIGKILL ? ErrorCode::does_not_fit : ErrorCode::device;
  for (const ErrorCode code : {ErrorCode::model, ErrorCode::does_not_fit})
    if (ending->number == static_cast<int>(code)) return code;
  return ErrorCode::device;
}

}  // namespace

std::string WorkerMoment::text() const {
  if (!last) return "while " + doing;
  std::string out = "in stage " + last->stage;
  for (const StagePlan& stage : stages)
    if (stage.name == last->stage && !stage.device.empty()) out += " on " + stage.device;
  if (last->of > 0) out += fmt::format(", step {} of {}", last->step, last->of);
  return out;
}

std::string last_lines(const std::string& words) {
  std::vector<std::string> lines(1);
  for (const char c : words) {
    if (c == '\n' || c == '\r')
      lines.emplace_back();
    else if (static_cast<unsigned char>(c) >= ' ' && c != '\x7f')
      lines.back() += c;
  }
  std::erase(lines, "");
  std::string out;
  for (std::size_t i = lines.size() > kShownLines ? lines.size() - kShownLines : 0; i < lines.size(); ++i)
    out += (out.empty() ? "" : " / ") + lines[i];
  if (out.size() > kShownBytes) {
    std::size_t cut = out.size() - kShownBytes;
    while (cut < out.size() && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) ++cut;  // not within a character
    out = "..." + out.substr(cut);
  }
  return out;
}

Error worker_died(const std::optional<Ending>& ending, const WorkerMoment& moment, const std::string& words) {
  const ErrorCode code = code_of(ending);
  const std::string how = ending ? "ended with " + ending->text() : "stopped answering";
  const bool killed = ending && ending->by_signal && ending->number == SIGKILL;
  std::string message = fmt::format("the worker process {} {}", how, moment.text());
  if (killed) message += ", most likely because the system ran out of memory";
  return Error{code, with_words(std::move(message), words), "",
               code == ErrorCode::does_not_fit ? "choose a smaller size or fewer frames; see 'tritium plan'" : ""};
}

Error worker_stalled(double seconds, const WorkerMoment& moment, const std::string& words) {
  return Error{ErrorCode::device,
               with_words(fmt::format("the worker process reported nothing for {:g} s {} and was ended", seconds, moment.text()), words),
               "", "the device or its driver may hang; the limit has to be longer than the longest step"};
}

Error worker_confused(const Error& problem, const WorkerMoment& moment, const std::string& words) {
  return Error{ErrorCode::failure, with_words(fmt::format("the worker process was ended {}: {}", moment.text(), problem.message), words),
               problem.field, problem.hint};
}

Error worker_interrupted(const WorkerMoment& moment) {
  return Error{ErrorCode::interrupted, "interrupted during " + (moment.last ? moment.last->stage : moment.doing), "", ""};
}

}  // namespace tritium
