#include "runtime/memory_sharing.hpp"

#include <span>
#include <system_error>

#include "runtime/condition.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

constexpr int kLeader = 0;  // its place
// Apart from the lanes of any collective.
constexpr std::uint32_t kLane = 0xffffff00;

template <typename T>
auto bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// The leader has passed the memory; it comes on another way than its message.
struct HasPassed {
  Engine& engine;
  int leader;  // its rank in the communicator
  Peer& peer;
  std::uint64_t number;
  Descriptor* descriptor;

  bool operator()() {
    if (!peer.gone() && peer.link()) peer.link()->check(peer);
    auto passed = engine.take_passed(number);
    if (passed) *descriptor = std::move(*passed);
    return passed.has_value();
  }
  bool awaits(int member) const noexcept { return member == leader; }
};

Task lead(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  for (int place = 1; place < team.size(); ++place) {
    std::uint8_t hello = 0;  // after which there is a link
    ReceiveMessage came(operation, team.member(place), kLane, bytes_of(hello));
    co_await came;
  }
  try {
    memory = SharedMemory::create(bytes);
  } catch (const std::system_error& error) {
    engine.log().info("{} bytes of shared memory are not to be had: {}", bytes, error.what());
  }
  bool good = static_cast<bool>(memory);
  for (int place = 1; place < team.size(); ++place) {
    Link* const link = engine.peer(group.world_rank(team.member(place))).link();
    std::uint8_t passed = memory && link && link->pass(memory.descriptor(), number) ? 1 : 0;
    SendMessage offer(operation, team.member(place), kLane, bytes_of(passed));
    co_await offer;
  }
  for (int place = 1; place < team.size(); ++place) {
    std::uint8_t mapped = 0;
    ReceiveMessage answer(operation, team.member(place), kLane, bytes_of(mapped));
    co_await answer;
    good &= mapped != 0;
  }
  std::uint8_t verdict = good ? 1 : 0;
  for (int place = 1; place < team.size(); ++place) {
    SendMessage told(operation, team.member(place), kLane, bytes_of(verdict));
    co_await told;
  }
  if (!good) memory = SharedMemory();
  memory.close_descriptor();
}

Task follow(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  const int leader = team.member(kLeader);
  std::uint8_t hello = 1;
  SendMessage here(operation, leader, kLane, bytes_of(hello));
  co_await here;
  std::uint8_t passed = 0;
  ReceiveMessage offer(operation, leader, kLane, bytes_of(passed));
  co_await offer;
  if (passed != 0) {
    Descriptor descriptor;
    Until arrived(operation, HasPassed{engine, leader, engine.peer(group.world_rank(leader)), number, &descriptor}, 1);
    co_await arrived;
    try {
      memory = SharedMemory::map(std::move(descriptor), bytes);
    } catch (const std::system_error& error) {
      engine.log().info("{} bytes of shared memory cannot be mapped: {}", bytes, error.what());
    }
  }
  std::uint8_t mapped = memory ? 1 : 0;
  SendMessage answer(operation, leader, kLane, bytes_of(mapped));
  co_await answer;
  std::uint8_t verdict = 0;
  ReceiveMessage told(operation, leader, kLane, bytes_of(verdict));
  co_await told;
  if (verdict == 0) memory = SharedMemory();
  memory.close_descriptor();
}

}  // namespace

Task share_memory(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes,
                  SharedMemory& memory) {
  return team.rank == kLeader ? lead(operation, team, number, bytes, memory)
                              : follow(operation, team, number, bytes, memory);
}

}  // namespace rondo::detail
