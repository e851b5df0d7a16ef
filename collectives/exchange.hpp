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

/// What the ranks of one operation tell each other. The tags of its messages, of which no two mean different things:
///
///     0 to 7              the lanes of an algorithm (kMaxLanes)
///     8 + Round           here
///     number, 0x40 | lane; 0x50 | lane; 0x60 | lane   those of one range between devices (device_port.cpp)
///     0xffffff00 and on   memory to share is passed (runtime/memory_sharing.cpp)
enum class Round : std::uint32_t {
  sides,          ///< on which side a rank's buffers are
  shares,         ///< whether its device can take part
  maps,           ///< whether it maps all others' buffers, for messages between devices
  ready,          ///< the same for `direct`, and when its input is there
  ended,          ///< when its device is done
  largest_block,  ///< that goes through the host
};

/// Every member hears every other's word, straight from him: `words[rank]` is this rank's own, the others come to their
/// places.
template <typename Word>
Task exchange(Operation& operation, Round round, std::vector<Word>& words) {
  static_assert(std::is_trivially_copyable_v<Word>);
  const std::uint32_t lane = kMaxLanes + static_cast<std::uint32_t>(round);
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
