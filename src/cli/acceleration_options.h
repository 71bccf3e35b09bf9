// Options for accelerations (docs/accelerations.md).
#pragma once

#include <tritium/request.h>
#include <CLI/CLI.hpp>

namespace tritium::cli {

// What was given is in `acceleration` when the command line has been read; the engine checks ranges and what excludes what.
void add_acceleration_options(CLI::App& app, Acceleration& acceleration);

}  // namespace tritium::cli
