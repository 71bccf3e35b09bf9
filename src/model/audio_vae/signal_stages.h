// A signal that graphs change one after the other: what the encoder and the decoder run on each channel.
#pragma once

#include "base/try.h"
#include "device/graph.h"

#include <fmt/format.h>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tritium::audio_vae {

struct SignalStages {
  Device& device;
  std::string scope;          // of the graphs' names
  std::vector<float> signal;  // [length, channels], length fastest
  std::int64_t length;
  const CancelToken* cancel;
  const std::function<void()>& stage_done;

  // Runs the graph that `build(graph, x)` makes on the signal, which becomes its result. Only one of both is in memory at a time.
  template <class Build>
  Result<void> run(const std::string& stage, const std::string& result_name, const Build& build) {
    Graph graph(device, fmt::format("{}.{}", scope, stage));
    ggml_tensor* x = graph.input("x", signal, {length, static_cast<std::int64_t>(signal.size()) / length});
    ggml_tensor* result = graph.output(result_name, build(graph, x));
    graph.watch(result);
    signal = {};
    TRITIUM_TRY(graph.run(cancel));
    signal = graph.read(result);
    length = result->ne[0];
    stage_done();
    return {};
  }
};

}  // namespace tritium::audio_vae
