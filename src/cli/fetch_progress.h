// Progress of fetch and of long checks on standard error, in the styles of progress_bar.h.
#pragma once

#include "cli/progress_bar.h"
#include "fetch/progress.h"

namespace tritium::cli {

class FetchPrinter {
 public:
  explicit FetchPrinter(ProgressStyle style) : style_(style) {}
  void operator()(const fetch::FetchProgress& progress);
  void notice(const std::string& text);
  // Ends an open bar so that the next output starts on a line of its own.
  void finish();

 private:
  void line(const fetch::FetchProgress& progress);
  void bar(const fetch::FetchProgress& progress);
  ProgressStyle style_;
  std::string file_, stage_;
  double last_line_ = -1;
  bool open_ = false;
};

}  // namespace tritium::cli
