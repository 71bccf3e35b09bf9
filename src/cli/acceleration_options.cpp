#include "cli/acceleration_options.h"

namespace tritium::cli {

void add_acceleration_options(CLI::App& app, Acceleration& a) {
  const char* group = "Accelerations, each of which changes the result";
  const auto option = [&](const char* name, auto& target, const char* help) { return app.add_option(name, target, help)->group(group); };
  option("--reuse-velocity", a.reuse_velocity, "Compute the transformer at every K-th step and extrapolate between; from 9 steps on");
  option("--reuse-core", a.reuse_core, "Run the transformer's blocks at every K-th step and add between what they added last, 1 to 6");
  option("--easycache", a.easycache, "Leave steps out while the change expected stays below THRESHOLD, 0 to 3; 0.2 when none is given")
      ->expected(0, 1)
      ->default_str("0.2")
      ->type_name("THRESHOLD");
  option("--easycache-start", a.easycache_start, "From this share of the run on, 0 to 1; 0.15 when absent");
  option("--easycache-end", a.easycache_end, "Up to this share of the run, 0 to 1; 0.95 when absent");
  option("--blocks", a.blocks, "Run only so many of the transformer's blocks, those that add the most");
  app.add_flag("--draft", a.draft, "Decode the pictures without overlaps: faster at sizes beyond 256 pixels or 22 frames, with seams")
      ->group(group);
}

}  // namespace tritium::cli
