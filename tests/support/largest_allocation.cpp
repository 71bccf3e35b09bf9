#include "support/largest_allocation.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace tritium::test {
namespace {

std::atomic<std::size_t> largest{0};

void* counted_or_null(std::size_t size) {
  std::size_t seen = largest.load();
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {}
  return std::malloc(size == 0 ? 1 : size);
}

void* counted(std::size_t size) {
  if (void* memory = counted_or_null(size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void forget_allocations() { largest = 0; }
std::size_t largest_allocation() { return largest; }

}  // namespace tritium::test

void* operator new(std::size_t size) { return tritium::test::counted(size); }
void* operator new[](std::size_t size) { return tritium::test::counted(size); }
// Buffers of std::stable_sort come from here.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return tritium::test::counted_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return tritium::test::counted_or_null(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
