#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <map>
#include <utility>

#include <rondo/port.hpp>
#include <rondo/task.hpp>

#include "collectives/device_memory.hpp"
#include "collectives/device_reduction.hpp"
#include "collectives/device_work.hpp"

namespace rondo::detail {

/// A message between the devices of two ranks, to be awaited: then all that it takes has been queued on this rank's.
class DeviceMessage {
 public:
  /// Starts at once; with an empty task there is nothing to do.
  DeviceMessage(Engine& engine, Task body);
  ~DeviceMessage();
  DeviceMessage(const DeviceMessage&) = delete;
  DeviceMessage& operator=(const DeviceMessage&) = delete;

  bool await_ready() const noexcept { return done_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() {
    waiter_ = {};
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static Task run(DeviceMessage& self, Task body);

  Engine& engine_;
  bool done_ = false;
  std::exception_ptr error_;
  std::coroutine_handle<> waiter_;  // until it goes on
  Task task_;
};

/// The Port over the memory of devices. Who sends tells where the range lies and which event it waits for; who receives
/// maps it, has its device copy or combine straight out of it, and answers with the event after which the range may
/// change. So the hosts only queue, and a whole ring may be queued ahead of the devices. Where a range cannot be mapped
/// the receiver says so, and it comes through the host.
class DevicePort {
 public:
  DevicePort(DeviceWork& work, DeviceMemory& memory, const DeviceReduction& reduction, bool in_place, bool sends_empty);

  int rank() const noexcept { return state_->work.operation().group().rank(); }
  int size() const noexcept { return state_->work.operation().group().size(); }
  bool in_place() const noexcept { return state_->in_place; }
  Range scratch(std::size_t count) { return state_->scratch(count); }
  DevicePort lane(int index) const {
    DevicePort other = *this;
    other.lane_ = static_cast<std::uint32_t>(index);
    return other;
  }

  void lane_failed(const std::exception_ptr& why) { state_->work.operation().report(why); }

  DeviceMessage send(const Range& range, int to);
  DeviceMessage recv(const Range& range, int from);
  DeviceMessage recv_reduce(const Range& own, const Range& into, int from, Side side);

  void copy(const Range& from, const Range& to);
  void keep(const Range& from, const Range& to, std::size_t) { copy(from, to); }
  void reduce(const Range& own, const Range& other, const Range& into, Side side);
  void finish(const Range& range);

 private:
  /// What the lanes of one collective share.
  struct State {
    /// Kept, too, while what was queued of a collective that failed may still write to it.
    Range scratch(std::size_t count);

    DeviceWork& work;
    DeviceMemory& memory;
    const DeviceReduction& reduction;
    const bool in_place;
    const bool sends_empty;  ///< ranks do not know what others have for them
    /// Messages to a member in a lane, and from him: both sides number them alike.
    std::map<std::pair<int, std::uint32_t>, std::uint32_t> sent, received;
  };
  /// What becomes of a range that arrives.
  struct Arrival {
    Range into;
    Range own;  ///< what it is combined with; empty: it is copied
    Side side = Side::right;
  };

  DeviceMessage receive(const Arrival& arrival, int from);
  static Task send_range(State& state, Range range, int to, std::uint32_t key);
  static Task receive_range(State& state, Arrival arrival, int from, std::uint32_t key);
  static Task receive_staged(State& state, Arrival arrival, int from, std::uint32_t key);
  static void take(State& state, const Arrival& arrival, cuda::Address from, int member);
  static void combine(State& state, cuda::Address own, cuda::Address other, const Range& into, Side side);
  std::uint32_t key(std::map<std::pair<int, std::uint32_t>, std::uint32_t>& numbers, int member) const;
  Engine& engine() const noexcept { return state_->work.operation().group().engine(); }

  std::shared_ptr<State> state_;
  std::uint32_t lane_ = 0;
};
static_assert(Port<DevicePort>);

}  // namespace rondo::detail
