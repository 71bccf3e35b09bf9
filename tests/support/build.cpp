#include "support/build.h"

// There only where a sanitizer is linked.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace tritium::test {

const char* tritium_binary() { return TRITIUM_BINARY; }

bool sanitizer_holds_memory() { return __asan_init != nullptr || __tsan_init != nullptr; }

}  // namespace tritium::test
