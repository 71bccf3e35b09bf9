#include "device/abort_report.h"

#include "base/files.h"
#include "device/rpc.h"

#include <ggml.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

namespace tritium {
namespace {

// Text that one thread may change while another one, about to end the process, reads it. Nothing here may allocate: the heap may be what
// is broken.
template <std::size_t N>
class SharedText {
 public:
  void set(std::string_view text) {
    const std::size_t length = std::min(text.size(), N - 1);
    for (std::size_t i = 0; i < length; ++i) text_[i].store(text[i], std::memory_order_relaxed);
    text_[length].store('\0', std::memory_order_relaxed);
  }
  [[nodiscard]] char at(std::size_t i) const { return i < N ? text_[i].load(std::memory_order_relaxed) : '\0'; }

 private:
  std::array<std::atomic<char>, N> text_{};
};

struct DeviceSlot {
  std::atomic<bool> taken{false};
  SharedText<64> name;
};

std::array<DeviceSlot, 32> devices;
SharedText<32> stage;
std::atomic<int> stage_step{0}, stage_of{0};
std::atomic<int> exit_status{-1};
ggml_abort_callback_t previous = nullptr;

// Appends to a buffer of fixed size; what does not fit is cut off.
class Line {
 public:
  Line(char* buffer, std::size_t size) : buffer_(buffer), size_(size) {}
  void add(char c) {
    if (length_ < size_) buffer_[length_++] = c;
  }
  void add(const char* text) {
    for (; *text != '\0'; ++text) add(static_cast<unsigned char>(*text) < ' ' ? ' ' : *text);
  }
  template <std::size_t N>
  void add(const SharedText<N>& text) {
    for (std::size_t i = 0; text.at(i) != '\0'; ++i) add(text.at(i));
  }
  void add(int number) {
    if (number >= 10) add(number / 10);
    add(static_cast<char>('0' + number % 10));
  }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  char* buffer_;
  std::size_t size_, length_ = 0;
};

void on_abort(const char* message) {
  std::array<char, 1024> line;
  const std::size_t length = write_abort_report(line.data(), line.size(), message == nullptr ? "" : message);
  [[maybe_unused]] ssize_t written = isatty(STDERR_FILENO) != 0 ? ::write(STDERR_FILENO, "\n", 1) : 0;  // below a progress bar
  written = ::write(STDERR_FILENO, line.data(), length);
  for (const std::string& lost : rpc::lost_connections()) {
    const std::string text = "tritium: the connection to '" + lost + "' was lost\n";
    written = ::write(STDERR_FILENO, text.data(), text.size());
  }
  if (const int status = exit_status; status >= 0) {
    remove_temporary_files();
    _exit(status);
  }
  if (previous != nullptr) previous(message);
}

}  // namespace

std::size_t write_abort_report(char* buffer, std::size_t size, const char* message) {
  Line line(buffer, size - 1);
  line.add("tritium: a compute backend failed");
  if (stage.at(0) != '\0') {
    line.add(" in stage ");
    line.add(stage);
    if (const int of = stage_of; of > 0) {
      line.add(", step ");
      line.add(std::max(0, stage_step.load()));
      line.add(" of ");
      line.add(of);
    }
  }
  bool first = true;
  for (const DeviceSlot& device : devices) {
    if (!device.taken || device.name.at(0) == '\0') continue;
    line.add(first ? "; devices in use: " : ", ");
    line.add(device.name);
    first = false;
  }
  line.add(": ");
  line.add(message);
  buffer[line.length()] = '\n';
  return line.length() + 1;
}

void report_aborts() {
  static std::once_flag once;
  std::call_once(once, [] { previous = ggml_set_abort_callback(on_abort); });
}

void exit_on_abort(int status) {
  report_aborts();
  exit_status = status;
}

void note_stage(std::string_view name, int step, int of) {
  stage.set(name);
  stage_step = step;
  stage_of = of;
}

DeviceInUse::DeviceInUse(std::string_view name) : slot_(-1) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].taken.exchange(true)) continue;
    devices[i].name.set(name);
    slot_ = static_cast<int>(i);
    return;
  }
}

DeviceInUse::~DeviceInUse() {
  if (slot_ < 0) return;
  DeviceSlot& slot = devices[static_cast<std::size_t>(slot_)];
  slot.name.set("");
  slot.taken = false;
}

}  // namespace tritium
