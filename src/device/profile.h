// Where the time of graphs goes: every node that a device computes is timed, one after the other.
#pragma once

#include <ggml.h>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tritium {

class Profile {
 public:
  // One kind of node in one kind of graph. Numbers in the scope are '#': "dit.step#.block#".
  struct Row {
    std::string scope, operation;  // "MUL_MAT attn_out f32 [64, 32]", "kernel int8 product mlp_out f32 [64, 32]"
    std::int64_t count = 0;
    double seconds = 0, bytes = 0;  // written and read, every operand once
  };

  // Thread safe. `start`: monotonic seconds.
  void add(const std::string& scope, const ggml_tensor* node, double start, double seconds);

  [[nodiscard]] std::vector<Row> rows() const;  // most seconds first
  // As text: rows that make up `share` of all time.
  [[nodiscard]] std::string table(double share = 0.98) const;
  // In Chrome's trace format, which Perfetto reads too: one complete event per node, one per graph around them.
  [[nodiscard]] std::string trace() const;

 private:
  struct Event {
    std::size_t row;
    std::string scope;  // with its numbers
    double start, seconds;
  };
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
  std::vector<Event> events_;
};

}  // namespace tritium
