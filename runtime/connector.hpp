#pragma once

#include <cstddef>

#include "runtime/clock.hpp"
#include "runtime/waiter.hpp"

namespace rondo::detail {

/// Makes links on first use. The mesh of a job is the real one; tests and the simulation have theirs. What comes of it
/// arrives at the engine: `Peer::attach`, or `Engine::peer_unreachable`.
class Connector {
 public:
  virtual ~Connector() = default;

  /// A link to this rank of the world is wanted. Does not block.
  virtual void connect(int world_rank) = 0;
  /// Moves connections that are being made, and takes those that others make. Returns how much moved.
  virtual std::size_t poll() = 0;
  /// Connections are being made right now: worth polling often.
  virtual bool busy() const = 0;
  /// One of them is with this rank, or may be: who had called by then has not said yet who it is.
  virtual bool may_reach(int world_rank, Time called_by) const = 0;
  /// Adds the descriptors that a sleep is to end for.
  virtual void watch(WakeList& wakes) const = 0;
};

}  // namespace rondo::detail
