// Counters for Google Benchmark: operations per second of CPU time, and their share of what a core can do at all (peak.h).
#pragma once

#include "peak.h"

#include <benchmark/benchmark.h>
#include <array>

namespace tritium::bench {

inline double limit_of(Unit unit) {
  static const std::array<double, 3> limits = {measured_peak(Unit::f32), measured_peak(Unit::bf16), measured_peak(Unit::int8)};
  return limits[static_cast<std::size_t>(unit)];
}

// `operations` of one iteration.
inline void count_operations(::benchmark::State& state, Unit unit, double operations) {
  using ::benchmark::Counter;
  state.counters["FLOP/s"] = Counter(operations, Counter::kIsIterationInvariantRate, Counter::kIs1000);
  if (limit_of(unit) > 0) state.counters["% of limit"] = Counter(100 * operations / limit_of(unit), Counter::kIsIterationInvariantRate);
}

// Reads the options of Google Benchmark, runs everything that is registered.
inline int run_registered(int count, char** arguments) {
  ::benchmark::Initialize(&count, arguments);
  if (::benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
  for (const auto& [unit, name] : {std::pair(Unit::f32, "f32"), std::pair(Unit::bf16, "bf16"), std::pair(Unit::int8, "int8")})
    ::benchmark::AddCustomContext(std::string("limit of a core, GFLOP/s, ") + name,
                                  std::to_string(static_cast<int>(limit_of(unit) * 1e-9)));
  ::benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace tritium::bench
