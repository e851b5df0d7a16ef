#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include <rondo/task.hpp>

namespace rondo::detail {
namespace {

// Sanitizers follow every frame from its own new to its own delete.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPooled = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif
#else
constexpr bool kPooled = true;
#endif

constexpr std::size_t kClassBytes = 128;
constexpr std::size_t kClasses = 32;
/// A thread that only frees what others allocate must not collect frames for ever.
constexpr std::size_t kFreeFramesPerClass = 1024;

struct FreeFrame {
  FreeFrame* next;
};

struct FreeList {
  FreeFrame* first = nullptr;
  std::size_t length = 0;
};

/// Trivial, so that frames can still be freed while the thread's other objects are destroyed.
struct Pool {
  std::array<FreeList, kClasses> lists;
  bool watched = false;
  bool closed = false;
};

constinit thread_local Pool pool;

/// Empties the pool when its thread ends.
struct PoolCloser {
  ~PoolCloser() {
    pool.closed = true;
    for (FreeList& list : pool.lists) {
      while (list.first != nullptr) ::operator delete(std::exchange(list.first, list.first->next));
      list.length = 0;
    }
  }
  void watch() noexcept { pool.watched = true; }
};

thread_local PoolCloser closer;

constexpr std::size_t class_of(std::size_t bytes) { return (bytes - 1) / kClassBytes; }

}  // namespace

void* allocate_frame(std::size_t bytes) {
  const std::size_t index = class_of(bytes);
  if (!kPooled || index >= kClasses) return ::operator new(bytes);
  FreeList& list = pool.lists[index];
  if (list.first == nullptr) return ::operator new((index + 1) * kClassBytes);
  --list.length;
  return std::exchange(list.first, list.first->next);
}

void free_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t index = class_of(bytes);
  if (!kPooled || index >= kClasses || pool.closed || pool.lists[index].length >= kFreeFramesPerClass) {
    ::operator delete(frame);
    return;
  }
  if (!pool.watched) closer.watch();
  FreeList& list = pool.lists[index];
  list.first = ::new (frame) FreeFrame{list.first};
  ++list.length;
}

}  // namespace rondo::detail
