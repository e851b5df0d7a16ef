#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <rondo/task.hpp>

#include "runtime/operation.hpp"
#include "runtime/team.hpp"
#include "transport/shared_memory.hpp"

namespace rondo::detail {

/// Why the members of a team have no memory in common: who of them could not do what. They tell each other.
struct Refusal {
  enum class Step : std::uint32_t { none, share, make, map };
  Step step = Step::none;
  std::int32_t rank = -1;          ///< in the world
  std::array<char, 120> reason{};  ///< the system's; ends in 0

  Refusal() = default;
  Refusal(Step what, int who, std::string_view why);
  explicit operator bool() const noexcept { return step != Step::none; }
  /// "rank 2 could not map 4096 bytes: ...", by its number in this communicator.
  std::string text(const Group& group, std::size_t bytes) const;
  /// Says so in the log, once for each of these two and each reason: "no shared memory for `what`, `instead` instead".
  void tell(Engine& engine, std::string_view what, std::string_view instead, std::size_t bytes) const;

 private:
  std::string text(int who, std::size_t bytes) const;
};

static_assert(std::is_trivially_copyable_v<Refusal>);

/// Gives every member of a team the same new memory, or none to any: the first member creates it and passes it to the
/// others, over links through shared memory. All say the same `bytes`, and the same `number`, which no other memory of
/// a rank has. Where one of them could not map it `memory` stays empty, and all hear of the `refusal`.
Task share_memory(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory,
                  Refusal& refusal);

}  // namespace rondo::detail
