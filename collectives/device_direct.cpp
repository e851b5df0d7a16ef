#include "collectives/device_direct.hpp"

#include <algorithm>

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
        moves_(plan, rank_, size_, share(rank_).in_place != 0),
        inputs_(shares.size()),
        outputs_(shares.size()) {}

  Task run(bool& done) {
    std::vector<Verdict> verdicts(shares_.size());
    Verdict& own = verdicts[index(rank_)];
    // Before anything is queued here, so that others' memory may be closed to make room.
    own.can = map_all() ? 1 : 0;
    work_.follow(memory_);
    Task recorded = work_.record(own.ready, size_ - 1);
    co_await recorded;
    Task told = exchange(work_.operation(), 1, verdicts);
    co_await told;
    done = std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.can != 0; });
    if (!done) {
      work_.give_back(own.ready, size_ - 1);
      co_return;
    }

    for_others([&](int member) { work_.wait_for(member, verdicts[index(member)].ready); });
    move();
    std::vector<cuda::EventTicket> tickets(shares_.size());
    Task marked = work_.record(tickets[index(rank_)], size_ - 1);
    co_await marked;
    Task finished = exchange(work_.operation(), 2, tickets);
    co_await finished;
    work_.give_back(own.ready, size_ - 1);
    for_others([&](int member) { work_.wait_for_end(member, tickets[index(member)]); });
    Task ended = work_.end();
    co_await ended;
  }

 private:
  template <typename Action>
  void for_others(const Action& action) const {
    for (int member = 0; member < size_; ++member) {
      if (member != rank_) action(member);
    }
  }

  // Who combines what for whom.

  bool on_one_device() const {
    return std::all_of(shares_.begin(), shares_.end(),
                       [&](const DeviceShare& share) { return share.device == shares_.front().device; });
  }
  /// The part of the vector that this rank combines.
  Range own_part() const {
    const Range all = moves_.whole(Buffer::input);
    const Range slice = plan_.blocks.in(Buffer::input, rank_);
    const bool rooted = plan_.collective == Collective::reduce;
    if (plan_.collective == Collective::reduce_scatter || plan_.algorithm == Algorithm::sliced) return slice;
    if (plan_.algorithm == Algorithm::leader) {
      if (!on_one_device()) return slice;
      return rank_ == (rooted ? plan_.root : 0) ? all : Range{};
    }
    if (rooted) return moves_.is_root() ? all : Range{};
    return for_itself() ? all : slice;
  }
  bool for_itself() const { return plan_.algorithm == Algorithm::direct && !anybody_in_place(shares_); }
  /// Whether what this rank combines belongs to that member, too.
  bool is_for(int member) const {
    if (plan_.collective == Collective::reduce) return member == plan_.root;
    return member == rank_ || (plan_.collective == Collective::all_reduce && !for_itself());
  }

  // Mapping what that takes.

  bool map_all() {
    bool all = true;
    for (int member = 0; member < size_; ++member) all = all && (member == rank_ || work_.reaches(member));
    if (reduces(plan_.collective)) {
      const Range part = own_part();
      for (int member = 0; member < size_ && part.count > 0; ++member) {
        all = all && map(inputs_, member, share(member).input, part);
        const Range into = plan_.collective == Collective::reduce_scatter ? moves_.own_output() : in_output(part);
        if (is_for(member)) all = all && map(outputs_, member, share(member).output, into);
      }
      return all;
    }
    for (int member = 0; member < size_; ++member) {
      const Range place = moves_.place_for(member);
      if (!takes_from(member) || place.count == 0) continue;
      all = all && map(inputs_, member, share(member).input, {Buffer::input, moves_.offset_in_offered(), place.count});
    }
    return all;
  }
  bool takes_from(int member) const {
    return member != rank_ && moves_.sources().has(member) && moves_.is_owner(member);
  }
  static Range in_output(const Range& range) { return {Buffer::output, range.begin, range.count}; }

  /// A range of what a member has at a place.
  bool map(std::vector<cuda::Address>& addresses, int member, const DevicePlace& place, const Range& range) {
    cuda::Address& address = addresses[index(member)];
    if (member == rank_) {
      address = memory_.address(range);
      return true;
    }
    if (place.region == 0) return false;
    DevicePlace part = place;
    part.offset += range.begin * memory_.element_bytes();
    const auto mapped = work_.map(member, part, memory_.bytes(range));
    address = mapped.value_or(0);
    return mapped.has_value();
  }

  // Doing it.

  void move() {
    const DirectMoves::Copy kept = moves_.kept();
    work_.copy(memory_.address(kept.from), memory_.address(kept.to), memory_.bytes(kept.from), -1);
    if (reduces(plan_.collective)) return combine(own_part().count);
    for (int turn = 1; turn < size_; ++turn) {
      const int member = (rank_ + turn) % size_;
      const Range place = moves_.place_for(member);
      if (takes_from(member)) {
        work_.copy(inputs_[index(member)], memory_.address(place), memory_.bytes(place), member);
      }
    }
  }

  void combine(std::size_t count) {
    cuda::DirectArguments arguments{};
    for (int member = 0; member < size_; ++member) {
      arguments.inputs[arguments.input_count++] = pointer(inputs_[index(member)]);
      if (is_for(member)) arguments.outputs[arguments.output_count++] = pointer(outputs_[index(member)]);
    }
    arguments.count = count;
    arguments.ranks = size_;
    if (count > 0) reduction_.kernels->direct(reduction_.functions, arguments, work_.stream());
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
  const DirectMoves moves_;
  std::vector<cuda::Address> inputs_;   ///< by member: what of theirs this rank reads, as it is mapped here
  std::vector<cuda::Address> outputs_;  ///< and writes
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
