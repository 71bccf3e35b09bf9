// Median seconds of five evaluations after one that does not count, and the peak of resident memory.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

struct Measured {
  double first = 0, median = 0, least = 0, cpu = 0;
};

inline double clock_seconds(clockid_t which) {
  timespec now{};
  clock_gettime(which, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double peak_resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024e-6;
}

template <typename Evaluate>
Measured measure_runs(int runs, Evaluate&& evaluate) {
  Measured out;
  std::vector<double> wall, cpu;
  for (int i = 0; i <= runs; ++i) {
    const double wall_start = clock_seconds(CLOCK_MONOTONIC), cpu_start = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    evaluate();
    const double seconds = clock_seconds(CLOCK_MONOTONIC) - wall_start;
    if (i == 0) out.first = seconds;
    if (i > 0 || runs == 0) {
      wall.push_back(seconds);
      cpu.push_back(clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
    }
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  out.median = wall[wall.size() / 2];
  out.least = wall.front();
  out.cpu = cpu[cpu.size() / 2];
  return out;
}

// Whether all values are finite, and their root mean square.
inline bool describe_values(const std::vector<float>& values, double& rms) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  rms = std::sqrt(sum / static_cast<double>(values.size()));
  return std::isfinite(sum);
}

inline void save_values(const std::string& file, const std::vector<float>& values) {
  std::FILE* out = std::fopen(file.c_str(), "wb");
  if (out == nullptr || std::fwrite(values.data(), sizeof(float), values.size(), out) != values.size()) std::perror(file.c_str());
  if (out != nullptr) std::fclose(out);
}
