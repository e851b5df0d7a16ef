#include "collectives/device_direct.hpp"

#include <algorithm>
#include <utility>

#include <rondo/algorithms.hpp>

#include "collectives/direct_moves.hpp"
#include "collectives/exchange.hpp"

namespace rondo::detail {
namespace {

/// What a rank says once it has tried to map what it needs.
struct Verdict {
  cuda::EventTicket ready;  ///< its memory may be read and written
  std::uint32_t can = 0;
};

bool anybody_in_place(const std::vector<DeviceShare>& shares) {
  return std::any_of(shares.begin(), shares.end(), [](const DeviceShare& share) { return share.in_place != 0; });
}

bool on_one_device(const std::vector<DeviceShare>& shares) {
  return std::all_of(shares.begin(), shares.end(),
                     [&](const DeviceShare& share) { return share.device == shares.front().device; });
}

/// As one rank goes through it.
class OnDevices {
 public:
  OnDevices(DeviceWork& work, DeviceMemory& memory, const Plan& plan, const DeviceReduction& reduction,
            const std::vector<DeviceShare>& shares)
      : work_(work),
        memory_(memory),
        plan_(plan),
        reduction_(reduction),
        shares_(shares),
        rank_(work.operation().group().rank()),
        size_(work.operation().group().size()),
        of_leader_(plan.algorithm == Algorithm::leader && on_one_device(shares)),
        acts_(!of_leader_ || rank_ == kLeader),
        inputs_(shares.size()),
        outputs_(shares.size()) {}

  Task run(bool& done) {
    std::vector<Verdict> verdicts(shares_.size());
    Verdict& own = verdicts[index(rank_)];
    // Before anything is queued here, so that others' memory may be closed to make room.
    own.can = map_all() ? 1 : 0;
    Task followed = work_.follow(memory_, of_leader_);
    co_await followed;
    Task recorded = work_.record(own.ready, size_ - 1);
    co_await recorded;
    Task told = exchange(work_.operation(), Round::ready, verdicts);
    co_await told;
    done = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.can != 0; });
    if (!done) {
      work_.give_back(own.ready, size_ - 1);
      co_return;
    }

    for_others([&](int member) {
      const cuda::EventTicket ready = verdicts[index(member)].ready;
      acts_ ? work_.wait_for(member, ready) : work_.watch(member, ready);
    });
    std::vector<cuda::EventTicket> tickets(shares_.size(), cuda::kNoEvent);
    if (acts_) {
      act();
      Task marked = work_.record(tickets[index(rank_)], size_ - 1);
      co_await marked;
    }
    Task finished = exchange(work_.operation(), Round::ended, tickets);
    co_await finished;
    work_.give_back(own.ready, size_ - 1);
    for_others([&](int member) { work_.ends_with(member, tickets[index(member)]); });
    Task ended = work_.end();
    co_await ended;
  }

 private:
  static constexpr int kLeader = 0;

  template <typename Action>
  void for_others(const Action& action) const {
    for (int member = 0; member < size_; ++member) {
      if (member != rank_) action(member);
    }
  }
  /// Those whose part this rank does.
  template <typename Action>
  void for_served(const Action& action) const {
    for (int member = 0; member < size_; ++member) {
      if (of_leader_ ? acts_ : member == rank_) action(member);
    }
  }
  DirectMoves moves_of(int member) const { return {plan_, member, size_, share(member).in_place != 0}; }

  // Who combines what for whom.

  /// The part of the vector that a member's part of the work combines.
  Range part_of(int member) const {
    const Range all = plan_.blocks.whole(Buffer::input);
    const Range slice = plan_.blocks.in(Buffer::input, member);
    const bool rooted = plan_.collective == Collective::reduce;
    if (plan_.collective == Collective::reduce_scatter || plan_.algorithm == Algorithm::sliced) return slice;
    if (plan_.algorithm == Algorithm::leader) {
      if (!of_leader_) return slice;
      return member == (rooted ? plan_.root : kLeader) ? all : Range{};
    }
    if (rooted) return member == plan_.root ? all : Range{};
    return for_itself() ? all : slice;
  }
  bool for_itself() const { return plan_.algorithm == Algorithm::direct && !anybody_in_place(shares_); }
  /// Whether what one combines belongs to a member, too.
  bool is_for(int member, int combiner) const {
    if (plan_.collective == Collective::reduce) return member == plan_.root;
    return member == combiner || (plan_.collective == Collective::all_reduce && !for_itself());
  }
  bool takes_from(int member, const DirectMoves& moves, int taker) const {
    return member != taker && moves.sources().has(member) && moves.is_owner(member);
  }

  // Mapping what that takes.

  bool map_all() {
    for (int member = 0; member < size_; ++member) {
      if (member != rank_ && !work_.reaches(member)) return false;
    }
    bool all = true;
    for_served([&](int served) { all = all && map_for(served); });
    return all;
  }
  bool map_for(int served) {
    const DirectMoves moves = moves_of(served);
    bool all = true;
    for (int member = 0; member < size_ && all; ++member) {
      if (reduces(plan_.collective)) {
        if (part_of(served).count == 0) continue;
        all = map_input(member) && (!is_for(member, served) || map_output(member));
      } else if (takes_from(member, moves, served) && moves.place_for(member).count > 0) {
        all = map_input(member) && map_output(served);
      }
    }
    if (all && moves.kept().from.count > 0) all = map_input(served) && map_output(served);
    return all;
  }
  bool map_input(int member) { return map(inputs_, member, share(member).input, moves_of(member).offered()); }
  bool map_output(int member) { return map(outputs_, member, share(member).output, moves_of(member).got()); }

  /// What a member has at a place, once.
  bool map(std::vector<cuda::Address>& addresses, int member, const DevicePlace& place, const Range& range) {
    cuda::Address& address = addresses[index(member)];
    if (address != 0) return true;
    if (member == rank_) {
      address = memory_.address(range);
      return true;
    }
    if (place.region == 0) return false;
    address = work_.map(member, place, memory_.bytes(range)).value_or(0);
    return address != 0;
  }
  cuda::Address input_of(int member, std::size_t first) const {
    return inputs_[index(member)] + first * memory_.element_bytes();
  }
  cuda::Address output_of(int member, std::size_t first) const {
    return outputs_[index(member)] + first * memory_.element_bytes();
  }

  // Doing it.

  void act() {
    for_served([&](int served) { reduces(plan_.collective) ? combine(served) : take(served); });
    work_.move(std::exchange(moves_, {}));
  }

  void take(int served) {
    const DirectMoves moves = moves_of(served);
    const DirectMoves::Copy kept = moves.kept();
    if (kept.from.count > 0) {
      move(served, kept.from.begin - moves.offered().begin, served, kept.to);
    }
    for (int turn = 1; turn < size_; ++turn) {
      const int member = (served + turn) % size_;
      if (takes_from(member, moves, served)) {
        move(member, moves.offset_in_offered(), served, moves.place_for(member));
      }
    }
  }
  /// From where a member's input has so many elements before it.
  void move(int from, std::size_t first, int to, const Range& place) {
    if (place.count == 0) return;
    const cuda::Address source = input_of(from, first), destination = output_of(to, place.begin);
    if (!of_leader_) return work_.copy(source, destination, memory_.bytes(place), from);
    moves_.push_back({pointer(source), pointer(destination), memory_.bytes(place)});
  }

  void combine(int served) {
    const Range part = part_of(served);
    const std::size_t into = plan_.collective == Collective::reduce_scatter ? 0 : part.begin;
    cuda::DirectArguments arguments{};
    for (int member = 0; member < size_ && part.count > 0; ++member) {
      arguments.inputs[arguments.input_count++] = pointer(input_of(member, part.begin));
      if (is_for(member, served)) arguments.outputs[arguments.output_count++] = pointer(output_of(member, into));
    }
    arguments.count = part.count;
    arguments.ranks = size_;
    if (part.count > 0) reduction_.kernels->direct(reduction_.functions, arguments, work_.stream());
  }

  static void* pointer(cuda::Address address) { return reinterpret_cast<void*>(address); }
  static std::size_t index(int member) { return static_cast<std::size_t>(member); }
  const DeviceShare& share(int member) const { return shares_[index(member)]; }

  DeviceWork& work_;
  DeviceMemory& memory_;
  const Plan& plan_;
  const DeviceReduction& reduction_;
  const std::vector<DeviceShare>& shares_;
  const int rank_;
  const int size_;
  const bool of_leader_;  ///< one rank does all
  const bool acts_;       ///< this rank has something to do
  // By member, as far as this rank needs them: where all that he offers lies, as it is mapped here, and all that he
  // gets.
  std::vector<cuda::Address> inputs_;
  std::vector<cuda::Address> outputs_;
  std::vector<cuda::Move> moves_;  ///< that are to be made at once
};

}  // namespace

bool has_direct_on_devices(const Plan& plan, const std::vector<DeviceShare>& shares) noexcept {
  if (plan.collective == Collective::all_to_all) return !anybody_in_place(shares);
  return !reduces(plan.collective) || shares.size() <= cuda::kMaxInputs;
}

Task run_direct_on_devices(DeviceWork& work, DeviceMemory& memory, const Plan& plan, const DeviceReduction& reduction,
                           const std::vector<DeviceShare>& shares, bool& done) {
  OnDevices rank(work, memory, plan, reduction, shares);
  Task run = rank.run(done);
  co_await run;
}

}  // namespace rondo::detail
