#pragma once

#include <atomic>

namespace rondo::detail {

/// Between a word that says whether memory still is what it was and that memory, of which no atomic object tells. Who
/// takes it back writes the word, has `release` and writes the memory; who reads it has `acquire` and looks at the
/// word. The thread sanitizer of g++ knows no fences.
inline void order_memory([[maybe_unused]] std::memory_order order) noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(order);
#endif
}

}  // namespace rondo::detail
