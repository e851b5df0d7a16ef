#include "runtime/arena_forming.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>

#include "runtime/condition.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

constexpr int kLeader = 0;
// Apart from the lanes of any collective.
constexpr std::uint32_t kLane = 0xffffff00;

// A member's region: windows of a quarter of a MiB. Shorter ones cost more waits, longer ones spread over the caches;
// both were measured with 16 MiB and 2, 4 and 8 ranks.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostStaging = std::size_t{768} << 10;
constexpr std::size_t kLeastStaging = 4 * kPage;

std::size_t staging_for(const Group& group) {
  const std::size_t share = group.engine().settings().staging_bytes / static_cast<std::size_t>(group.size());
  return std::clamp(share / kPage * kPage, kLeastStaging, kMostStaging);
}

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

Task lead(Operation& operation) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  for (int member = 1; member < group.size(); ++member) {
    std::uint8_t hello = 0;
    ReceiveMessage came(operation, member, kLane, bytes_of(hello));
    co_await came;
  }
  std::uint64_t staging = staging_for(group);
  SharedMemory memory;
  try {
    memory = SharedMemory::create(Arena::memory_bytes(group.size(), staging));
  } catch (const std::system_error& error) {
    engine.log().info("collectives without shared memory: {}", error.what());
  }
  bool good = static_cast<bool>(memory);
  for (int member = 1; member < group.size(); ++member) {
    Link* const link = engine.peer(group.world_rank(member)).link();
    std::uint64_t offered = memory && link && link->pass(memory.descriptor(), group.id()) ? staging : 0;
    SendMessage offer(operation, member, kLane, bytes_of(offered));
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
  std::unique_ptr<Arena> arena;
  if (good) arena = std::make_unique<Arena>(std::move(memory), kLeader, group.size(), staging);
  engine.log().info("communicator of {} ranks: collectives {} shared memory", group.size(), good ? "in" : "without");
  group.commons().form(std::move(arena));
}

Task follow(Operation& operation) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  std::uint8_t hello = 1;
  SendMessage here(operation, kLeader, kLane, bytes_of(hello));
  co_await here;
  std::uint64_t staging = 0;
  ReceiveMessage offer(operation, kLeader, kLane, bytes_of(staging));
  co_await offer;
  std::unique_ptr<Arena> arena;
  if (staging != 0) {
    Descriptor descriptor;
    Until passed(operation, HasPassed{engine, engine.peer(group.world_rank(kLeader)), group.id(), &descriptor}, 1);
    co_await passed;
    try {
      auto memory = SharedMemory::map(std::move(descriptor), Arena::memory_bytes(group.size(), staging));
      arena = std::make_unique<Arena>(std::move(memory), group.rank(), group.size(), staging);
    } catch (const std::system_error& error) {
      engine.log().info("collectives without shared memory: {}", error.what());
    }
  }
  std::uint8_t mapped = arena ? 1 : 0;
  SendMessage answer(operation, kLeader, kLane, bytes_of(mapped));
  co_await answer;
  std::uint8_t verdict = 0;
  ReceiveMessage told(operation, kLeader, kLane, bytes_of(verdict));
  co_await told;
  if (verdict == 0) arena.reset();
  group.commons().form(std::move(arena));
}

}  // namespace

Task form_arena(Operation& operation) {
  return operation.group().rank() == kLeader ? lead(operation) : follow(operation);
}

}  // namespace rondo::detail
