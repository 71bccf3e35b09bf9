// For tests that limit what may be allocated: linking largest_allocation.cpp replaces operator new in the whole executable.
#pragma once

#include <cstddef>

namespace tritium::test {

void forget_allocations();
std::size_t largest_allocation();  // bytes asked for at once, since forget_allocations()

}  // namespace tritium::test
