// Progress on standard error: a bar on a terminal, a line per stage otherwise, or JSON lines.
#pragma once

#include <tritium/engine.h>
#include <string>

namespace tritium::cli {

enum class ProgressStyle { none, bar, lines, json };

// "auto" (bar on a terminal, lines otherwise), "bar", "lines", "json" or "none".
ProgressStyle progress_style(const std::string& name);

class ProgressPrinter {
 public:
  explicit ProgressPrinter(ProgressStyle style) : style_(style) {}
  void operator()(const Progress& progress);
  // Ends an open bar so that the next output starts on a line of its own.
  void finish();

 private:
  void bar(const Progress& progress);
  void line(const Progress& progress);
  ProgressStyle style_;
  std::string stage_;
  double last_ = -1;
  bool open_ = false;
};

}  // namespace tritium::cli
