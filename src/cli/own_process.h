// Running this program again as a child process.
#pragma once

#include <tritium/cancel.h>

#include <functional>
#include <string>
#include <vector>

namespace tritium::cli {

struct ProcessEnd {
  int status = -1;  // exit status
  int signal = 0;   // that ended it; 0: none
};

// Hands out what it writes to standard output as it comes; standard error is shared. The child ends with this process, and when `cancel` is
// cancelled. Error failure: it could not be started.
Result<ProcessEnd> run_own_program(const std::vector<std::string>& arguments, const std::function<void(const std::string&)>& output,
                                   const CancelToken& cancel);

}  // namespace tritium::cli
