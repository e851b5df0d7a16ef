#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <rondo/communicator.hpp>
#include <rondo/element_type.hpp>
#include <rondo/export.hpp>

namespace rondo {

namespace detail {
/// Zeroed memory of so many bytes for each member, which the members' collectives reach without a copy if they can.
RONDO_EXPORT std::shared_ptr<std::byte> allocate_bytes(Communicator& communicator, std::size_t bytes);
}  // namespace detail

/// What `allocate` returns: this rank's elements. Movable; the memory lives as long as it does, whatever becomes of the
/// communicator.
template <Element T>
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(SharedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), count_(std::exchange(other.count_, 0)) {}
  SharedBuffer& operator=(SharedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }

  T* data() const noexcept { return reinterpret_cast<T*>(memory_.get()); }
  std::size_t size() const noexcept { return count_; }
  std::span<T> span() const noexcept { return {data(), count_}; }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + count_; }
  T& operator[](std::size_t index) const noexcept { return data()[index]; }

 private:
  template <Element U>
  friend SharedBuffer<U> allocate(Communicator& communicator, std::size_t count);

  SharedBuffer(std::shared_ptr<std::byte> memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}

  std::shared_ptr<std::byte> memory_;
  std::size_t count_ = 0;
};

/// A buffer of `count` zeroed elements on every rank. The other ranks of its host can reach it, and the communicator's
/// collectives of some length (see README.md) do without a copy in between; on several hosts in what is done on each:
///
///     broadcast, scatter, gather,     the others read what they need straight out of the buffer of whoever gives it
///     all_gather, all_to_all          (all_to_all in place excepted)
///     reduce_scatter                  inputs are combined where they are
///     reduce, all_reduce              and the result is written straight into the root's output, or everybody's
///
/// That takes such a buffer, or a part of one, on every rank that others read from or write to; in which of them it
/// lies is each rank's own matter. A long message on this communicator is read by its receiver straight out of such a
/// buffer of the sender's. Anywhere else it is memory like any other.
///
///     auto gradients = rondo::allocate<float>(world, 1 << 20);
///     rondo::all_reduce(world, gradients.span(), rondo::sum);
///
/// A collective call: all ranks, the same count. While a reduce or all_reduce goes on the other ranks write this rank's
/// output, also after it has given the operation up because of a failure.
///
/// Throws Error as the collectives do, invalid_argument for more elements than memory can hold, and `system` when there
/// is no memory.
template <Element T>
[[nodiscard]] SharedBuffer<T> allocate(Communicator& communicator, std::size_t count) {
  return SharedBuffer<T>(detail::allocate_bytes(communicator, detail::bytes_of(count, sizeof(T), "allocate")), count);
}

}  // namespace rondo
