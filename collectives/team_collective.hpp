#pragma once

#include <cstdint>
#include <optional>

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"
#include "collectives/host_memory_port.hpp"
#include "runtime/condition.hpp"
#include "runtime/operation.hpp"
#include "runtime/team.hpp"

namespace rondo::detail {

// What a collective needs beside its algorithm, and so does each part of one in two levels.

/// What the members of a team have in common: memory; it is not known what; nothing, each is on a host of its own.
enum class Nearness : std::uint8_t { memory, any, none };

/// What the table takes for `plan` among the members of a team.
Plan decided(Plan plan, std::size_t element_bytes, const Operation& operation, const Team& team, Nearness nearness,
             bool on_device = false);

/// An operation's turn in the memory that a team shares, from its call to its end.
class Turn {
 public:
  struct Came {
    const Commons* commons;
    std::uint64_t ticket;
    bool operator()() const noexcept { return commons->turn_of(ticket); }
    bool awaits(int) const noexcept { return false; }
  };

  Turn(Operation& operation, Team& team) : operation_(operation), team_(team), ticket_(team.commons.take_ticket()) {}
  ~Turn() { team_.commons.turn_is_over(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// To be awaited.
  Until<Came> come() { return {operation_, Came{&team_.commons, ticket_}, 1}; }
  /// The same; then the team's arena has been made, too, or is known not to be had.
  Task come_with_arena();

 private:
  Operation& operation_;
  Team& team_;
  const std::uint64_t ticket_;
};

/// `plan` by an algorithm for ranks that share memory (`shares_memory`), in the operation's turn. `done` stays false
/// where there is no arena, or the collective does not fit: all members know that alike, and nothing has been done.
Task run_in_arena(Operation& operation, Team& team, HostMemory& memory, const Plan& plan, bool in_place,
                  DirectPort::Begun begun, bool& done);

}  // namespace rondo::detail
