// What tests must know about the build they run in. Functions and no macros: test files are compiled alike for every build
// (tests/CMakeLists.txt).
#pragma once

namespace tritium::test {

// Path of the built program `tritium`.
const char* tritium_binary();

// Whether AddressSanitizer or ThreadSanitizer watches this process: freed memory is kept for a while, and limits on address space are
// refused.
bool sanitizer_holds_memory();

}  // namespace tritium::test
