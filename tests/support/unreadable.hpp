#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <stdexcept>

namespace rondo::testing {

/// Memory for its own process alone: the kernel does not copy out of what is mapped to be written only, though
/// processors read it like any other.
template <typename T>
class Unreadable {
 public:
  explicit Unreadable(std::size_t count)
      : bytes_(count * sizeof(T)), memory_(::mmap(nullptr, bytes_, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~Unreadable() { ::munmap(memory_, bytes_); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

  std::span<T> span() const noexcept { return {static_cast<T*>(memory_), bytes_ / sizeof(T)}; }

 private:
  const std::size_t bytes_;
  void* const memory_;
};

}  // namespace rondo::testing
