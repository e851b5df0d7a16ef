#include "runtime/memory_sharing.hpp"

#include <cerrno>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "runtime/condition.hpp"
#include "runtime/engine.hpp"
#include "transport/system_errors.hpp"

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

/// Whether it could not be passed to a member, whatever it is.
Refusal none_with(Engine& engine, int world_rank) {
  const std::string& reason = engine.peer(world_rank).no_shared_memory();
  return reason.empty() ? Refusal() : Refusal(Refusal::Step::share, world_rank, reason);
}

/// Gives a member the descriptor. Nothing: it has it.
Refusal hand_to(Engine& engine, int world_rank, std::uint64_t number, const SharedMemory& memory) {
  Link* const link = engine.peer(world_rank).link();
  errno = ENOTCONN;
  if (link && link->pass(memory.descriptor(), number)) return {};
  return {Refusal::Step::share, world_rank, "sendmsg: " + system_text(errno)};
}

Task lead(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory,
          Refusal& refusal) {
  Group& group = operation.group();
  Engine& engine = group.engine();
  for (int place = 1; place < team.size(); ++place) {
    std::uint8_t hello = 0;  // after which there is a link
    ReceiveMessage came(operation, team.member(place), kLane, bytes_of(hello));
    co_await came;
    if (!refusal) refusal = none_with(engine, group.world_rank(team.member(place)));
  }
  try {
    if (!refusal) memory = SharedMemory::create(bytes);
  } catch (const std::system_error& error) {
    refusal = {Refusal::Step::make, engine.settings().rank, error.what()};
  }
  for (int place = 1; place < team.size(); ++place) {
    if (!refusal) refusal = hand_to(engine, group.world_rank(team.member(place)), number, memory);
    std::uint8_t passed = refusal ? 0 : 1;
    SendMessage offer(operation, team.member(place), kLane, bytes_of(passed));
    co_await offer;
  }
  for (int place = 1; place < team.size(); ++place) {
    Refusal theirs;
    ReceiveMessage answer(operation, team.member(place), kLane, bytes_of(theirs));
    co_await answer;
    theirs.reason.back() = '\0';
    if (!refusal) refusal = theirs;
  }
  for (int place = 1; place < team.size(); ++place) {
    SendMessage verdict(operation, team.member(place), kLane, bytes_of(refusal));
    co_await verdict;
  }
  if (refusal) memory = SharedMemory();
  memory.close_descriptor();
}

Task follow(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory,
            Refusal& refusal) {
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
      refusal = {Refusal::Step::map, engine.settings().rank, error.what()};
    }
  }
  SendMessage answer(operation, leader, kLane, bytes_of(refusal));
  co_await answer;
  ReceiveMessage verdict(operation, leader, kLane, bytes_of(refusal));
  co_await verdict;
  refusal.reason.back() = '\0';
  if (refusal) memory = SharedMemory();
  memory.close_descriptor();
}

}  // namespace

Refusal::Refusal(Step what, int who, std::string_view why) : step(what), rank(who) {
  why.copy(reason.data(), reason.size() - 1);
}

std::string Refusal::text(const Group& group, std::size_t bytes) const { return text(group.member(rank), bytes); }

std::string Refusal::text(int who, std::size_t bytes) const {
  switch (step) {
    case Step::share: return fmt::format("rank {} cannot be passed any: {}", who, reason.data());
    case Step::make: return fmt::format("rank {} could not make {} bytes: {}", who, bytes, reason.data());
    default: return fmt::format("rank {} could not map {} bytes: {}", who, bytes, reason.data());
  }
}

void Refusal::tell(Engine& engine, std::string_view what, std::string_view instead, std::size_t bytes) const {
  // Who shares none with some rank at all has said so.
  const std::string about = step == Step::share ? "" : std::string(what);
  if (!engine.first_time(about + reason.data())) return;
  engine.log().warn("no shared memory for {}, {} instead: {}", what, instead, text(rank, bytes));
}

Task share_memory(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes, SharedMemory& memory,
                  Refusal& refusal) {
  return team.rank == kLeader ? lead(operation, team, number, bytes, memory, refusal)
                              : follow(operation, team, number, bytes, memory, refusal);
}

}  // namespace rondo::detail
