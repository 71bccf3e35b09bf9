// Invariants of the fuzz targets: a violation ends the process, which is how libFuzzer learns of it.
#pragma once

#include <cstdio>
#include <cstdlib>

[[noreturn]] inline void fuzz_violation(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: violated: %s\n", file, line, what);
  std::abort();
}

#define FUZZ_REQUIRE(condition) ((condition) ? static_cast<void>(0) : fuzz_violation(__FILE__, __LINE__, #condition))
