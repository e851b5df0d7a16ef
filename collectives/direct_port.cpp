#include "collectives/direct_port.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "runtime/engine.hpp"
#include "transport/shared_stores.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

// A look at another rank's line costs so much less than a poll of the engine.
constexpr int kLooksPerPoll = 8;
// What a rank on its way may need: some microseconds on a core of its own, or its turn on one that it shares. Who only
// waits for ranks on other cores keeps this one, so as not to be away when they come; but not where there is a root,
// and others can go ahead on this core meanwhile.
constexpr int kLooksPerRound = 16;
constexpr int kRounds = 64;
constexpr int kCrowdedYields = 16;

// Of a sum on its way to memory, in a core's first cache meanwhile.
constexpr std::size_t kFoldedBytes = std::size_t{8} << 10;

/// Calls `use` with room for an address of each rank.
template <typename Use>
void with_addresses(std::size_t ranks, Use use) {
  constexpr std::size_t kFew = 16;
  if (ranks <= kFew) {
    std::array<const std::byte*, kFew> few;
    use(std::span(few).first(ranks));
  } else {
    std::vector<const std::byte*, PooledAllocator<const std::byte*>> many(ranks);
    use(std::span(many));
  }
}

}  // namespace

void DirectPort::expect_to_touch(std::size_t count) noexcept {
  // (Measured with 2, 4 and 8 ranks on two cores of an AMD EPYC that share 32 MiB: where all_gather, all_to_all,
  // broadcast and all_reduce touched 48 MiB and more they took 0.86 of the time in the median of 17 cells, longer in
  // one; at 32 MiB and less up to 1.5 times as long. Hence half as much again.)
  const std::size_t held = group_.engine().settings().caches.held_by(size());
  past_caches_ = count * element_bytes() >= held + held / 2;
}

std::size_t DirectPort::window(std::size_t chunk, std::size_t shares) const noexcept {
  const std::size_t most = arena_.step_bytes() / memory_.element_bytes() / shares;
  return chunk == 0 ? most : std::min(chunk, most);
}

int DirectPort::looks() const noexcept { return kLooksPerPoll * group_.engine().settings().idle.polls; }

void DirectPort::wake(int member) { group_.engine().wake(group_.world_rank(team_.member(member))); }

void DirectPort::report_mismatch(const Step& step, int member) const {
  if (!operation_) return;
  const Call& theirs = arena_.call(step, member);
  if (theirs == operation_->call() && operation_->leaves_it_to_hub()) return;
  group_.report_mismatch(*operation_, team_.member(member), theirs);
}

template <typename Test>
bool DirectPort::soon(Test done, int from, int to) {
  const auto all_done = [&] {
    while (from < to && (from == rank() || done(from))) ++from;
    return from == to;
  };
  Engine& engine = group_.engine();
  IdleHabits& habits = engine.progress().habits();
  if (all_done()) {
    habits.brought(1);
    return true;
  }
  const IdlePolicy& policy = engine.settings().idle;
  habits.expect(0, group_.home_core());
  const auto core_is_wanted = [&] {
    arena_.wait_on_core(::sched_getcpu());
    if (call_.root >= 0) return true;
    for (int member = from; member < to; ++member) {
      if (member != rank() && arena_.may_want_core(member) && !done(member)) return true;
    }
    return false;
  };
  Time now{};
  int yields = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int look = 0; look < kLooksPerRound; ++look) {
      if (!all_done()) continue;
      if (yields > 0) habits.learn(true, true, policy);
      return true;
    }
    if (!habits.shares_core()) continue;
    if (round == 0) now = engine.clock().now();
    if (habits.yields_are_long(now) || yields == kCrowdedYields || policy.yield == Duration::zero()) return false;
    if (!core_is_wanted()) {
      habits.learn(true, false, policy);
      continue;
    }
    now = habits.yield(engine.clock(), now);
    ++yields;
  }
  return false;
}

bool DirectPort::has_room_in_a_while(const Step& step) {
  return soon([&](int member) { return arena_.may_enter(step, member); }, 0, size());
}

bool DirectPort::entered_soon(const Step& step, int from, int to) {
  return soon([&](int member) { return has_entered(*this, step, member); }, from, to);
}

void DirectPort::take(const Step& step, int member, std::size_t at_byte, std::span<std::byte> to) {
  put({arena_.bytes(step, member) + at_byte, to.size()}, to.data());
}

void DirectPort::put(std::span<const std::byte> result, std::byte* to) const noexcept {
  if (past_caches_ && result.size() >= SharedStores::kLeast && result.data() != to)
    return store_past_caches(result, to);
  copy_bytes(result, to);
}

void DirectPort::fold(const Step& step, std::size_t at_byte, const std::byte* own, std::byte* into, std::size_t count) {
  if (count == 0) return;
  with_addresses(static_cast<std::size_t>(size()), [&](std::span<const std::byte*> inputs) {
    for (int member = 0; member < size(); ++member) {
      inputs[static_cast<std::size_t>(member)] = member == rank() ? own : arena_.bytes(step, member) + at_byte;
    }
    memory_.reduction().fold(inputs, into, count);
  });
  memory_.finish(into, count);
}

void DirectPort::fold_in_place(const Step& step, std::size_t at, const Range& own) {
  const std::size_t at_byte = at * element_bytes();
  const std::byte* const mine = memory_.readable(own);
  std::byte* const into = arena_.bytes(step, rank()) + at_byte;
  const std::size_t most = kFoldedBytes / element_bytes();
  if (most == 0 || !team_.commons.stores().past_caches(memory_.bytes(own))) {
    return fold(step, at_byte, mine, into, own.count);
  }
  alignas(64) std::array<std::byte, kFoldedBytes> piece;
  for (std::size_t begin = 0; begin < own.count; begin += most) {
    const std::size_t count = std::min(most, own.count - begin);
    const std::size_t offset = begin * element_bytes();
    fold(step, at_byte + offset, mine + offset, piece.data(), count);
    store_past_caches(std::span(piece).first(count * element_bytes()), into + offset);
  }
}

void DirectPort::expose(const Step& step, const Range& input, const Range& output) {
  const SharedRegions& regions = team_.commons.regions();
  // First: another thread may give up a buffer meanwhile.
  regions.hold(held_);
  Exposed mine;
  mine.word = ProcessWord::own();
  mine.process = ::getpid();
  mine.address = reinterpret_cast<std::uint64_t>(memory_.readable(input));
  mine.in_place = in_place_ ? 1 : 0;
  mine.forbidden = team_.commons.forbidden() ? 1 : 0;
  mine.input = regions.find(memory_.readable(input), memory_.bytes(input), rank());
  mine.output = regions.find(memory_.writable(output), memory_.bytes(output), rank());
  mine.known = regions.known();
  exposes_ = true;
  std::memcpy(arena_.bytes(step, rank()), &mine, sizeof mine);
}

DirectPort::MappedRanks DirectPort::mapped(const Step& step) {
  SharedRegions& regions = team_.commons.regions();
  MappedRanks ranks(static_cast<std::size_t>(size()));
  // Who has given a buffer up may not map the others' any more; then nobody is to reckon with it.
  for (int member = 0; member < size(); ++member) {
    if (exposed(step, member).known != exposed(step, rank()).known) return ranks;
  }
  if (exposed(step, rank()).known == 0) regions.none_left();
  const auto reach = [&](const SharedRegions::Place& place, int member) {
    std::byte* const part = place.region != 0 ? regions.part(place.region, member) : nullptr;
    return part ? part + place.offset : nullptr;
  };
  for (int member = 0; member < size(); ++member) {
    const Exposed theirs = exposed(step, member);
    ranks[static_cast<std::size_t>(member)] = {reach(theirs.input, member), reach(theirs.output, member)};
  }
  return ranks;
}

void DirectPort::fold_mapped_into(std::span<const Mapped> ranks, std::size_t at, std::size_t count, std::byte* into) {
  const std::size_t offset = at * memory_.element_bytes();
  with_addresses(ranks.size(), [&](std::span<const std::byte*> inputs) {
    std::transform(ranks.begin(), ranks.end(), inputs.begin(), [&](const Mapped& one) { return one.input + offset; });
    memory_.reduction().fold(inputs, into, count);
  });
  memory_.finish(into, count);
}

void DirectPort::fold_mapped(std::span<const Mapped> ranks, std::size_t at, std::size_t count) {
  const std::size_t offset = at * memory_.element_bytes();
  const std::byte* result = nullptr;
  for (int turn = 0; turn < size(); ++turn) {
    const Mapped& one = ranks[static_cast<std::size_t>((rank() + turn) % size())];
    if (!one.output) continue;
    std::byte* const into = one.output + offset;
    if (result) {
      put({result, count * memory_.element_bytes()}, into);
    } else {
      fold_mapped_into(ranks, at, count, into);
      result = into;
    }
  }
}

void DirectPort::fold_mapped(std::span<const Mapped> ranks, std::size_t at, const Range& to) {
  if (to.count > 0) fold_mapped_into(ranks, at, to.count, memory_.writable(to));
}

bool DirectPort::fetch(const Step& step, const Mapped& from, int member, std::size_t at, const Range& to) {
  if (to.count == 0) return true;
  const std::span into(memory_.writable(to), memory_.bytes(to));
  const std::size_t offset = at * memory_.element_bytes();
  if (from.input) {
    put({from.input + offset, into.size()}, into.data());
    return true;
  }
  Exposed theirs = exposed(step, member);
  theirs.address += offset;
  // Who waits for this rank alone has a core to spare for it.
  const bool waits = call_.collective == Collective::gather || (call_.root >= 0 && size() == 2);
  pull_.emplace(Pull{group_.engine().peer(group_.world_rank(team_.member(member))), into, theirs});
  settle(pull_->from.pull(theirs.address, into, waits && !crowded()));
  return pull_->state == Link::Pulled::yes;
}

void DirectPort::settle(Link::Pulled pulled) {
  pull_->state = pulled;
  if (pulled != Link::Pulled::no) return;
  if (read_process(static_cast<pid_t>(pull_->theirs.process), pull_->theirs.address, pull_->into)) {
    pull_->state = Link::Pulled::yes;
  } else {
    pull_->error = errno;
  }
}

bool DirectPort::Fetched::operator()() {
  Pull& pull = *port->pull_;
  if (pull.state == Link::Pulled::not_yet) port->settle(pull.from.pulled());
  return pull.state != Link::Pulled::not_yet;
}

bool DirectPort::has_fetched(int member) {
  if (pull_->state == Link::Pulled::yes) return true;
  if (pull_->error == ESRCH) return false;  // others say so soon, and how it ended
  Engine& engine = group_.engine();
  const std::string text = fmt::format(
      "communicator of {} ranks: what {} fetches of rank {} comes as a message: process_vm_readv: {}", group_.size(),
      to_string(call_.collective), group_.world_rank(team_.member(member)), system_text(pull_->error));
  if (engine.first_time(text)) engine.log().info("{}", text);
  // If not that buffer, others can be.
  if (pull_->error != EFAULT) team_.commons.forbid_reading();
  return false;
}

Until<DirectPort::Members> DirectPort::refuse(const Step& step, int member, std::size_t bytes, std::size_t wanted) {
  group_.report_count(*operation_, team_.member(member), bytes, wanted);
  return until(step, &never, member, member + 1);
}

void DirectPort::stop_fetching(int member) {
  if (readable() == true) {
    group_.engine().log().info("communicator of {} ranks: blocks are not fetched from now on: rank {} may not",
                               group_.size(), group_.world_rank(team_.member(member)));
  }
  found_readable(false);
}

DirectPort::Exposed DirectPort::exposed(const Step& step, int member) const {
  Exposed theirs;
  std::memcpy(&theirs, arena_.bytes(step, member), sizeof theirs);
  return theirs;
}

bool DirectPort::reads_all(const Step& step) const {
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) continue;
    const Link* const link = group_.engine().peer(group_.world_rank(team_.member(member))).link();
    if (link && link->pull_ruled_out()) return false;
    const Exposed theirs = exposed(step, member);
    if (!theirs.word.found_in(static_cast<pid_t>(theirs.process))) return false;
  }
  return true;
}

void DirectPort::show(const Step& step, std::uint64_t word) {
  std::memcpy(arena_.bytes(step, rank()), &word, sizeof word);
}

std::uint64_t DirectPort::shown(const Step& step, int member) const {
  std::uint64_t word = 0;
  std::memcpy(&word, arena_.bytes(step, member), sizeof word);
  return word;
}

}  // namespace rondo::detail
