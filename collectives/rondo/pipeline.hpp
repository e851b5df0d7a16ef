#pragma once

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <rondo/plan.hpp>
#include <rondo/port.hpp>

namespace rondo {

/// The chunks of one lane: every `stride`-th from `first` on. The assignment is fixed, so that both ends of a message
/// find themselves in the same lane.
///
///     5 chunks on 2 lanes:   lane 0: 0 2 4    lane 1: 1 3
struct Lane {
  std::size_t first = 0;
  std::size_t stride = 1;
  std::size_t end = 0;  ///< chunks of all lanes together
};

namespace detail {

/// Where a pipeline waits for its lanes. The last to arrive resumes it.
class LaneJoin {
 public:
  explicit LaneJoin(int lanes) : pending_(lanes) {}

  void fail(std::exception_ptr error) noexcept {
    if (!error_) error_ = std::move(error);
  }

  /// A lane's last act: it does not come back from here.
  struct Arrival {
    LaneJoin& join;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept {
      if (--join.pending_ > 0 || !join.waiting_) return std::noop_coroutine();
      return join.waiting_;
    }
    void await_resume() const noexcept {}
  };
  Arrival arrive() noexcept { return {*this}; }

  bool await_ready() const noexcept { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> pipeline) noexcept { waiting_ = pipeline; }
  void await_resume() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  int pending_;
  std::coroutine_handle<> waiting_;
  std::exception_ptr error_;
};

template <Port P, typename Body>
Task run_lane(P& port, int index, const Body& body, const Lane& lane, LaneJoin& join) {
  try {
    P mine = port.lane(index);
    Task task = body(mine, lane);
    co_await task;
  } catch (...) {
    join.fail(std::current_exception());
    port.lane_failed(std::current_exception());
  }
  auto arrival = join.arrive();
  co_await arrival;
}

template <Port P, typename Body>
Task run_lanes(P& port, std::size_t chunks, int count, Body body) {
  LaneJoin join(count);
  std::array<Lane, kMaxLanes> lanes;
  std::array<Task, kMaxLanes> tasks;
  for (int i = 0; i < count; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    lanes[slot] = {slot, static_cast<std::size_t>(count), chunks};
    tasks[slot] = run_lane(port, i, body, lanes[slot], join);
    tasks[slot].start();
  }
  co_await join;
}

}  // namespace detail

/// Runs `body(port, lane)`, a coroutine that does the plain algorithm for each chunk of its lane, on up to `lanes`
/// lanes at the same time. Ends when all lanes have ended, with the first exception that any of them threw.
/// One lane is the body itself, without a frame around it.
///
/// `body` is copied into the pipeline: it captures references to what outlives the operation, nothing else.
template <Port P, typename Body>
Task pipeline(P& port, std::size_t chunks, int lanes, Body body) {
  static_assert(std::is_trivially_copyable_v<Body>);
  const auto most = static_cast<std::size_t>(std::clamp(lanes, 1, kMaxLanes));
  const int count = static_cast<int>(std::min(chunks, most));
  if (count <= 1) return body(port, Lane{0, 1, chunks});
  return detail::run_lanes(port, chunks, count, body);
}

/// Messages in flight at once where an algorithm sends or receives many.
inline constexpr std::size_t kWindow = 4;

/// A few messages of one kind in flight at once: a new one waits for the slot that the oldest leaves.
///
///     auto& slot = sends[number];
///     co_await slot;                                        // done with what was in it, if anything was
///     slot.launch([&] { return port.send(range, to); });
///     ...
///     for (auto& rest : sends) co_await rest;
template <typename Message, std::size_t N = kWindow>
class Window {
 public:
  /// Awaitable like the message in it; empty, it is ready.
  class Slot {
   public:
    /// Messages do not move, so `start` makes the new one where it stays.
    template <typename Start>
    void launch(const Start& start) {
      struct Make {
        const Start& start;
        operator Message() const { return start(); }
      };
      message_.emplace(Make{start});
    }

    bool await_ready() { return !message_ || message_->await_ready(); }
    auto await_suspend(std::coroutine_handle<> waiting) { return message_->await_suspend(waiting); }
    void await_resume() {
      if (message_) message_->await_resume();
    }

   private:
    std::optional<Message> message_;
  };

  Slot& operator[](std::size_t number) noexcept { return slots_[number % N]; }
  auto begin() noexcept { return slots_.begin(); }
  auto end() noexcept { return slots_.end(); }

 private:
  std::array<Slot, N> slots_;
};

}  // namespace rondo
