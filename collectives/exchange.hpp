#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <type_traits>
#include <vector>

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "runtime/group.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// Every member hears every other's word, straight from him: `words[rank]` is this rank's own, the others come to their
/// places. `round` tells the exchanges of one operation apart.
template <typename Word>
Task exchange(Operation& operation, int round, std::vector<Word>& words) {
  static_assert(std::is_trivially_copyable_v<Word>);
  const auto lane = static_cast<std::uint32_t>(kMaxLanes + round);
  const auto own = static_cast<std::size_t>(operation.group().rank());
  std::deque<ReceiveMessage> heard;
  std::deque<SendMessage> told;
  for (std::size_t member = 0; member < words.size(); ++member) {
    if (member == own) continue;
    heard.emplace_back(operation, static_cast<int>(member), lane, std::as_writable_bytes(std::span(&words[member], 1)));
  }
  for (std::size_t member = 0; member < words.size(); ++member) {
    if (member == own) continue;
    told.emplace_back(operation, static_cast<int>(member), lane, std::as_bytes(std::span(&words[own], 1)));
  }
  for (ReceiveMessage& message : heard) co_await message;
  for (SendMessage& message : told) co_await message;
}

}  // namespace rondo::detail
