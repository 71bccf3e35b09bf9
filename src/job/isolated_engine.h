// An engine in a process of its own: what fails there, in ggml, in a driver or for want of memory, costs one request and not the caller.
#pragma once

#include <tritium/engine.h>

#include <functional>
#include <string>
#include <vector>

namespace tritium {

struct IsolationOptions {
  std::vector<std::string> command;  // starts a worker; empty: this program itself with the argument "worker"
  // The worker is ended when it has reported nothing for so long while it works; 0: never. A report comes after every block or tile, so
  // the limit has to be longer than the longest of these and than the longest single read of a weight file: minutes, not seconds. The
  // worker sends no signs of life beside its work on purpose: those would go on while a driver hangs.
  double stall_seconds = 0;
  double grace_seconds = 20;    // from cancelling until the worker is killed
  bool pass_on_stderr = false;  // what the worker says on standard error also goes to that of this process
  // Called on the thread of the caller; each may be empty.
  std::function<void(int pid)> on_start;  // a worker process runs
  // The call that is about to fail got no answer: the worker could not be started, died, or was ended. With the end of what it said on
  // standard error. An error without this call is the engine's own.
  std::function<void(const std::string& last_words)> on_loss;
};

// Starts a worker and opens the model in it. The engine behaves as that of Engine::open(): the same results, errors, progress and files;
// relative names of files mean the same. Like that one it serves one thread at a time.
//
// When the worker dies, the call fails with an Error that says where it was and what it said last: `device`; does_not_fit if it was killed,
// as systems do that run out of memory; or what its exit status says. Its temporary files are removed, nothing exists under the final name,
// and the next call starts another worker.
//
// Errors: as Engine::open(), and failure: no worker could be started, or one of another version.
Result<std::unique_ptr<Engine>> open_isolated_engine(const EngineOptions& options, const IsolationOptions& isolation = {});

}  // namespace tritium
