#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>

#include <rondo/port.hpp>
#include <rondo/reduction.hpp>

#include "runtime/engine.hpp"

namespace rondo::detail {

/// The host memory of one collective: what the ranges of its algorithm mean. Addresses, element size, operator, and
/// scratch from the engine's pool, which goes back when the collective ends. Under the engine's lock, as all below.
class HostMemory {
 public:
  /// `finished_for`: of so many inputs is what the algorithm combines the whole; 1: only a part, not to be finished.
  HostMemory(Engine& engine, std::size_t element_bytes, const Reduction& reduction, int finished_for)
      : engine_(engine), element_bytes_(element_bytes), reduction_(reduction), finished_for_(finished_for) {}
  ~HostMemory() {
    if (scratch_) give_back();
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void set(const std::byte* input, std::byte* output) noexcept {
    input_ = input;
    output_ = output;
  }
  Range scratch(std::size_t count);

  /// Empty ranges have no address: their buffer may not exist on this rank.
  const std::byte* readable(const Range& range) const noexcept;
  std::byte* writable(const Range& range) const noexcept;
  std::size_t bytes(const Range& range) const noexcept { return range.count * element_bytes_; }
  std::size_t element_bytes() const noexcept { return element_bytes_; }
  const Reduction& reduction() const noexcept { return reduction_; }
  const std::byte* input() const noexcept { return input_; }
  std::byte* output() const noexcept { return output_; }
  /// The operator's last pass.
  void finish(std::byte* elements, std::size_t count) const {
    if (finished_for_ > 1) reduction_.finish(elements, count, finished_for_);
  }

 private:
  /// Memory that one call of `scratch` made; the entries are pooled like coroutine frames.
  struct Scratch {
    Scratch* next;
    std::size_t begin;
    std::size_t count;
    std::byte* memory;
  };
  void give_back();

  Engine& engine_;
  const std::size_t element_bytes_;
  const Reduction& reduction_;
  const int finished_for_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  Scratch* scratch_ = nullptr;
  std::size_t scratch_count_ = 0;
};

/// The Port over real memory and real messages: ranges become bytes, places in a team become peers. A lane is a number
/// that the messages of its pipeline match by.
class HostMemoryPort {
 public:
  HostMemoryPort(Operation& operation, const Team& team, HostMemory& memory, bool in_place, bool sends_empty)
      : operation_(&operation), team_(&team), memory_(&memory), in_place_(in_place), sends_empty_(sends_empty) {}

  /// A message that exists unless its range is empty; where ranks do not know what others have for them, even then.
  template <typename Kind>
  class Awaitable {
   public:
    template <typename Bytes>
    Awaitable(const HostMemoryPort& port, int peer, Bytes bytes) {
      if (!bytes.empty() || port.sends_empty_) {
        message_.emplace(*port.operation_, port.team_->member(peer), port.lane_, bytes);
      }
    }
    bool await_ready() const noexcept { return !message_ || message_->await_ready(); }
    void await_suspend(std::coroutine_handle<> waiter) noexcept { message_->await_suspend(waiter); }
    void await_resume() {
      if (message_) message_->await_resume();
    }

   private:
    std::optional<Kind> message_;
  };
  using Send = Awaitable<SendMessage>;
  using Receive = Awaitable<ReceiveMessage>;

  /// A receive that combines what arrives with the elements of `own`.
  class ReceiveReduce {
   public:
    ReceiveReduce(Operation& operation, int peer, std::uint32_t lane, const Reduction& reduction, const std::byte* own,
                  std::span<std::byte> into, Side side);
    bool await_ready() const noexcept { return !message_ || message_->await_ready(); }
    void await_suspend(std::coroutine_handle<> waiter) noexcept { message_->await_suspend(waiter); }
    void await_resume() {
      if (message_) message_->await_resume();
      if (thrown_) std::rethrow_exception(thrown_);
    }

   private:
    static void combine(void* context, std::byte* into, const std::byte* from, std::size_t bytes);

    const Reduction& reduction_;
    const std::byte* const own_;
    const Side side_;
    std::exception_ptr thrown_;  // by the caller's operator, which the engine must not see throw
    std::optional<ReceiveMessage> message_;
  };

  int rank() const noexcept { return team_->rank; }
  int size() const noexcept { return team_->size(); }
  bool in_place() const noexcept { return in_place_; }
  Range scratch(std::size_t count) { return memory_->scratch(count); }
  HostMemoryPort lane(int index) const {
    HostMemoryPort other = *this;
    other.lane_ = static_cast<std::uint32_t>(index);
    return other;
  }

  void lane_failed(const std::exception_ptr& why) { operation_->report(why); }

  Send send(const Range& range, int to) {
    return Send(*this, to, std::span(memory_->readable(range), memory_->bytes(range)));
  }
  Receive recv(const Range& range, int from) {
    return Receive(*this, from, std::span(memory_->writable(range), memory_->bytes(range)));
  }
  ReceiveReduce recv_reduce(const Range& own, const Range& into, int from, Side side) {
    return ReceiveReduce(*operation_, team_->member(from), lane_, memory_->reduction(), memory_->readable(own),
                         std::span(memory_->writable(into), memory_->bytes(into)), side);
  }

  void copy(const Range& from, const Range& to) {
    const std::byte* const source = memory_->readable(from);
    std::byte* const target = memory_->writable(to);
    if (source != target) std::memcpy(target, source, memory_->bytes(from));
  }
  void keep(const Range& from, const Range& to, std::size_t touched);
  void reduce(const Range& own, const Range& other, const Range& into, Side side) {
    if (own.count == 0) return;
    memory_->reduction().combine(memory_->readable(own), memory_->readable(other), memory_->writable(into), own.count,
                                 side);
  }
  void finish(const Range& range) {
    if (range.count > 0) memory_->finish(memory_->writable(range), range.count);
  }

 private:
  /// Members that run on the cores of this one.
  int ranks_here() const;

  Operation* operation_;
  const Team* team_;
  HostMemory* memory_;
  std::uint32_t lane_ = 0;
  bool in_place_;
  bool sends_empty_;
};
static_assert(Port<HostMemoryPort>);

}  // namespace rondo::detail
