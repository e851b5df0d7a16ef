#include "runtime/memory_sharing.hpp"

#include <span>
#include <system_error>

#include "runtime/condition.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

constexpr int kLeader = 0;
// Apart from the lanes of any collective.
constexpr std::uint32_t kLane = 0xffffff00;

template <typename T>
auto bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// The leader has passed the memory; it comes on another way than its message.
struct HasPassed {
  Engine& engine;
  Peer& leader;
  std::uint64_t number;
  Descriptor* descriptor;

  bool operator()() {
    if (!leader.gone() && leader.link()) leader.link()->check(leader);
    *descriptor = engine.take_passed(number);
    return static_cast<bool>(*descriptor);
  }
  bool awaits(int member) const noexcept { return member == kLeader; }
};

Task lead(Operation& operation, std::uint64_t number, std::size_t bytes, SharedMemory& memory) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  for (int member = 1; member < group.size(); ++member) {
    std::uint8_t hello = 0;  // after which there is a link
    ReceiveMessage came(operation, member, kLane, bytes_of(hello));
    co_await came;
  }
  try {
    memory = SharedMemory::create(bytes);
  } catch (const std::system_error& error) {
    engine.log().info("{} bytes of shared memory are not to be had: {}", bytes, error.what());
  }
  bool good = static_cast<bool>(memory);
  for (int member = 1; member < group.size(); ++member) {
    Link* const link = engine.peer(group.world_rank(member)).link();
    std::uint8_t passed = memory && link && link->pass(memory.descriptor(), number) ? 1 : 0;
    SendMessage offer(operation, member, kLane, bytes_of(passed));
    co_await offer;
  }
  for (int member = 1; member < group.size(); ++member) {
    std::uint8_t mapped = 0;
    ReceiveMessage answer(operation, member, kLane, bytes_of(mapped));
    co_await answer;
    good &= mapped != 0;
  }
  std::uint8_t verdict = good ? 1 : 0;
  for (int member = 1; member < group.size(); ++member) {
    SendMessage told(operation, member, kLane, bytes_of(verdict));
    co_await told;
  }
  if (!good) memory = SharedMemory();
  memory.close_descriptor();
}

Task follow(Operation& operation, std::uint64_t number, std::size_t bytes, SharedMemory& memory) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  std::uint8_t hello = 1;
  SendMessage here(operation, kLeader, kLane, bytes_of(hello));
  co_await here;
  std::uint8_t passed = 0;
  ReceiveMessage offer(operation, kLeader, kLane, bytes_of(passed));
  co_await offer;
  if (passed != 0) {
    Descriptor descriptor;
    Until arrived(operation, HasPassed{engine, engine.peer(group.world_rank(kLeader)), number, &descriptor}, 1);
    co_await arrived;
    try {
      memory = SharedMemory::map(std::move(descriptor), bytes);
    } catch (const std::system_error& error) {
      engine.log().info("{} bytes of shared memory cannot be mapped: {}", bytes, error.what());
    }
  }
  std::uint8_t mapped = memory ? 1 : 0;
  SendMessage answer(operation, kLeader, kLane, bytes_of(mapped));
  co_await answer;
  std::uint8_t verdict = 0;
  ReceiveMessage told(operation, kLeader, kLane, bytes_of(verdict));
  co_await told;
  if (verdict == 0) memory = SharedMemory();
  memory.close_descriptor();
}

}  // namespace

Task share_memory(Operation& operation, std::uint64_t number, std::size_t bytes, SharedMemory& memory) {
  return operation.group().rank() == kLeader ? lead(operation, number, bytes, memory)
                                             : follow(operation, number, bytes, memory);
}

}  // namespace rondo::detail
