// The worker's side: an engine that is told over two descriptors what to do (worker_protocol.h).
#pragma once

namespace tritium {

// Serves one caller until it closes the stream, and returns the exit status: 0 after a proper end, 1 when the caller is of another version
// or sends what cannot be understood. When the caller goes away in the middle of a request, the process ends at once, without its temporary
// files. `in` and `out` may be one descriptor. Standard input and output of the process are no longer these afterwards: what libraries
// print goes to standard error.
int worker_main(int in, int out);

}  // namespace tritium
