#include "tests/support/allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local long calls = 0;

}  // namespace

namespace rondo::testing {

long allocations() noexcept { return calls; }

}  // namespace rondo::testing

// The other forms come down to these.
void* operator new(std::size_t bytes) {
  ++calls;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++calls;
  const auto align = static_cast<std::size_t>(alignment);
  if (void* const memory = std::aligned_alloc(align, (bytes + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
