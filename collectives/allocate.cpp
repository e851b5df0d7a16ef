#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <fmt/format.h>

#include <rondo/allocate.hpp>
#include <rondo/error.hpp>

#include "collectives/team_collective.hpp"
#include "runtime/access.hpp"
#include "runtime/memory_sharing.hpp"

namespace rondo::detail {
namespace {

// A part begins on a page, so that it is aligned for every element.
constexpr std::size_t kPageBytes = 4096;

/// All members ask for the same memory; those on one host get a part of it each.
class Allocation final : public Operation {
 public:
  Allocation(Group& group, const Call& call, std::size_t part_bytes)
      : Operation(group, call, std::nullopt), team(group.neighbours()), part_bytes_(part_bytes) {}

  Team& team;
  SharedMemory memory;
  Refusal refusal;
  std::uint64_t region = 0;

  std::size_t memory_bytes() const { return static_cast<std::size_t>(team.size()) * part_bytes_; }

 private:
  Task body() override {
    // Collectives that were called before do without it, on every member.
    Turn turn(*this, team);
    auto came = turn.come();
    co_await came;
    region = team.commons.regions().next();
    if (!group().one_host()) {
      // Those elsewhere get nothing in common, but whoever asked for something else shall hear of it.
      Task heard = hear_of_all();
      co_await heard;
    }
    if (team.size() == 1 || !(group().one_host() || group().hosts())) co_return;
    // Numbers of communicators are spread over all 64 bits; those of their regions lie beside them.
    Task shared = share_memory(*this, team, group().id() + region, memory_bytes(), memory, refusal);
    co_await shared;
  }

  Task hear_of_all() {
    std::byte mine{}, theirs{};
    for (int other = 0; other < group().size(); ++other) {
      if (other == group().rank()) continue;
      // With both on their way, neither waits for the other to receive first.
      ReceiveMessage received(*this, other, 0, std::span(&theirs, 1));
      SendMessage sent(*this, other, 0, std::span(&mine, 1));
      co_await received;
      co_await sent;
    }
  }

  const std::size_t part_bytes_;
};

Error refused(const Group& group, Errc code, const std::string& cause) {
  return {code, cause, group.facts_of("allocate")};
}

/// Says why it is not shared, where the ranks might have had it so.
std::shared_ptr<std::byte> ordinary(Group& group, Allocation& allocation, std::size_t bytes) {
  std::string why;
  if (allocation.refusal) {
    why = allocation.refusal.text(group, allocation.memory_bytes());
  } else if (group.size() > 1) {
    why = fmt::format("rank {} shares memory with no other", group.rank());
  }
  allocation.team.commons.regions().refuse(why);
  // Where one rank could not make it for all, those are in one container, and each takes its part of what that has
  // left.
  const bool together = allocation.refusal.step == Refusal::Step::make;
  const bool none = bytes > memory_of_machine() || !cgroups_leave(together ? allocation.memory_bytes() : bytes);
  void* const memory = none ? nullptr : ::operator new (bytes, std::align_val_t{kPageBytes}, std::nothrow);
  if (!memory) {
    const std::string shared = allocation.refusal ? "; nor shared: " + why : "";
    throw refused(group, Errc::system, fmt::format("there is no memory of {} bytes{}", bytes, shared));
  }
  std::memset(memory, 0, bytes);
  if (allocation.refusal) {
    allocation.refusal.tell(group.engine(), "allocate", "ordinary memory", allocation.memory_bytes());
  }
  return {static_cast<std::byte*>(memory),
          [](std::byte* data) { ::operator delete (data, std::align_val_t{kPageBytes}); }};
}

}  // namespace

std::shared_ptr<std::byte> allocate_bytes(Communicator& communicator, std::size_t bytes) {
  Group& group = CommunicatorAccess::group(communicator, "allocate");
  constexpr std::size_t kMost = std::size_t{1} << 46;
  if (bytes > kMost) {
    throw refused(group, Errc::invalid_argument,
                  fmt::format("{} bytes for each rank are more than memory can hold", bytes));
  }
  Progress::Entry entry(group.engine().progress());
  group.check();
  Call call;
  call.collective = Collective::allocate;
  call.count = bytes;
  const std::size_t part_bytes = std::max<std::size_t>((bytes + kPageBytes - 1) / kPageBytes, 1) * kPageBytes;
  Allocation allocation(group, call, part_bytes);
  allocation.start();
  group.engine().progress().finish(entry, allocation);
  if (allocation.error()) std::rethrow_exception(allocation.error());
  if (!allocation.memory) return ordinary(group, allocation, part_bytes);
  const auto memory = std::make_shared<SharedMemory>(std::move(allocation.memory));
  SharedRegions& regions = allocation.team.commons.regions();
  regions.refuse({});
  regions.add(allocation.region, memory, part_bytes);
  return {memory, regions.part(allocation.region, allocation.team.rank)};
}

}  // namespace rondo::detail
