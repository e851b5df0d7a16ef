#pragma once

namespace rondo::detail {

/// Asks for a cache line that others have read, so that it is there when it is written.
inline void take_for_writing(const void* line) noexcept {
#ifdef __x86_64__
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace rondo::detail
