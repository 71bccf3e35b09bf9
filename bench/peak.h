// The arithmetic limit of one core: independent multiply-adds on registers.
#pragma once

namespace tritium::bench {

enum class Unit { f32, bf16, int8 };

// Operations per second of CPU time, by the widest instructions this machine has for the unit; best of a few tries. 0: it has none.
double measured_peak(Unit unit);

// CPU time of this thread in seconds: other load on the machine counts less in it than in the time that passes.
double thread_seconds();

}  // namespace tritium::bench
