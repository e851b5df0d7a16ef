#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include <rondo/task.hpp>

namespace rondo {

/// The memory that a range lies in. In an in-place operation input and output are the same memory.
enum class Buffer : std::uint8_t { input, output, scratch };

/// `count` elements from element `begin` of a buffer. What stands behind it belongs to the port: host memory,
/// device memory, or nothing at all in the simulator.
struct Range {
  Buffer buffer = Buffer::output;
  std::size_t begin = 0;
  std::size_t count = 0;

  constexpr Range part(std::size_t offset, std::size_t length) const { return {buffer, begin + offset, length}; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// On which side of the operator the other operand stands. Operators that do not commute need operands in rank
/// order: what comes from lower ranks stands on the left.
enum class Side : std::uint8_t { left, right };

/// What an algorithm talks to: one rank's view of one collective. Algorithms name ranges and ranks, never pointers,
/// so one text serves the host, the device and the simulator.
///
/// - `send(range, to)`, `recv(range, from)` and `recv_reduce(own, into, from, side)` start at once and return an
///   object to keep in a named local and to `co_await` once; it is neither copied nor moved, and keeps no reference
///   to its arguments. Messages between two ranks in one lane arrive in the order of the sends. A port does not send
///   to its own rank.
/// - `recv_reduce` computes `into = own (op) arriving`, `side` telling where the arriving operand stands. `own` is
///   only read; it is `into` itself, or disjoint from it (in place, an input range may name the memory of `into`).
/// - A range must stay untouched until its awaitable has completed. `recv_reduce` changes `into` at an unknown time
///   before it completes: never while a send of the same range is in flight.
/// - **An empty range is never sent**: its send, recv and recv_reduce complete at once, on both sides, without a
///   message.
/// - Local: `copy(from, to)` (nothing to do where both are the same memory); `keep(from, to, touched)`, the same of a
///   result that nobody reads again, where all ranks together touch so many elements (`elements_touched`);
///   `reduce(own, other, into, side)` with the rules of recv_reduce; and `finish(range)`, the operator's last pass
///   (`avg`'s division), called exactly once for every element of the result, by whoever computed it. All accept empty
///   ranges.
/// - `scratch(count)` is memory that lives until the operation ends; each call returns a new range.
/// - `lane(i)` is the same port with messages matched among themselves: concurrent pipelines use one each. The port
///   that the operation starts with is lane 0; all lanes share rank, buffers and scratch. `lane_failed(why)` is told at
///   once of a lane that ends by an exception: another one may wait for what it, on this rank or on others, does not
///   send any more.
/// - Failure is an exception from `co_await`, and fails every other message of the same collective too. Destroying
///   an awaitable that has not completed withdraws it: its range is not touched afterwards.
template <typename P>
concept Port = std::move_constructible<P> &&
    requires(P& port, const Range& range, int rank, Side side, std::size_t count, std::exception_ptr why) {
  { port.rank() } -> std::convertible_to<int>;
  { port.size() } -> std::convertible_to<int>;
  { port.in_place() } -> std::convertible_to<bool>;
  { port.scratch(count) } -> std::same_as<Range>;
  port.send(range, rank);
  port.recv(range, rank);
  port.recv_reduce(range, range, rank, side);
  port.copy(range, range);
  port.keep(range, range, count);
  port.reduce(range, range, range, side);
  port.finish(range);
  { port.lane(rank) } -> std::same_as<P>;
  port.lane_failed(why);
};

/// The awaitables of a port, by name.
template <Port P>
using SendOf = decltype(std::declval<P&>().send(std::declval<const Range&>(), 0));
template <Port P>
using RecvOf = decltype(std::declval<P&>().recv(std::declval<const Range&>(), 0));

}  // namespace rondo
