#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rondo/port.hpp>
#include <rondo/task.hpp>

#include "collectives/host_memory_port.hpp"
#include "runtime/arena.hpp"
#include "runtime/condition.hpp"
#include "runtime/operation.hpp"
#include "transport/copy_short.hpp"
#include "transport/link.hpp"
#include "transport/process_memory.hpp"

namespace rondo::detail {

/// To where they may be already.
inline void copy_bytes(std::span<const std::byte> from, std::byte* to) noexcept {
  if (from.data() != to) copy_short(from, to);
}

/// What the direct algorithms talk to: the ranges of one collective's buffers, and an arena in which every rank lays
/// out bytes that the others read. Members are known by their places in the team; counts and offsets are in elements.
class DirectPort {
 public:
  using Step = Arena::Step;
  /// What has been done of a collective's first step.
  struct Begun {
    std::optional<Step> step;
    bool entered = false;
  };

  /// The members of `team` have an arena.
  DirectPort(Group& group, Team& team, const Call& call, HostMemory& memory, bool in_place)
      : group_(group), team_(team), call_(call), memory_(memory), arena_(*team.commons.arena()), in_place_(in_place) {}
  ~DirectPort() {
    if (pull_ && pull_->state == Link::Pulled::not_yet) pull_->from.give_up_pull();
    if (exposes_) arena_.give_up();
  }
  DirectPort(const DirectPort&) = delete;
  DirectPort& operator=(const DirectPort&) = delete;
  /// Waiting beyond a few looks is done as this operation.
  void belongs_to(Operation& operation) noexcept { operation_ = &operation; }

  using Done = bool (*)(const DirectPort&, const Step&, int);
  /// Whether the members at the places from `next` to `end` have done something, this rank left out.
  struct Members {
    const DirectPort* port;
    Step step;
    Done done;
    int next;
    int end;

    bool operator()() {
      while (next < end) {
        if (next != port->rank() && !done(*port, step, next)) return false;
        ++next;
      }
      return true;
    }
    bool awaits(int member) const noexcept {
      const int place = port->team_.place_of(member);
      return place >= next && place < end && place != port->rank() && !done(*port, step, place);
    }
  };

  /// Whether the share of the member at a place has been done.
  struct Finished {
    const DirectPort* port;
    Step step;
    int of;

    bool operator()() const noexcept { return port->arena_.has_finished(step, of); }
    bool awaits(int member) const noexcept {
      const int worker = port->arena_.worker(step, of);
      return worker != port->rank() && port->team_.member(worker) == member && !(*this)();
    }
  };

  /// Whether what a member writes to this rank is there.
  struct Fetched {
    DirectPort* port;
    int from;

    bool operator()();
    bool awaits(int member) const noexcept { return port->team_.member(from) == member; }
  };

  int rank() const noexcept { return arena_.rank(); }
  int size() const noexcept { return arena_.members(); }
  bool in_place() const noexcept { return in_place_; }

  /// All ranks together are to read and write so many elements of their buffers. Where that is clearly more than the
  /// caches hold, results that are only moved are stored past them: nobody would find them there later, and what is
  /// written through a cache is first read from memory.
  void expect_to_touch(std::size_t count) noexcept;

  /// The most elements, `chunk` if that is less and not 0, of which a rank can lay out `shares` times as many in a
  /// step.
  std::size_t window(std::size_t chunk, std::size_t shares) const noexcept;
  /// A step of so many elements is short: a coroutine and its waits are a part of its time that can be measured.
  /// (0.5 to 1 of it for 32 KiB, 0.8 to 0.97 for 256 KiB with 2, 4 and 8 ranks on two cores.)
  bool is_short(std::size_t count) const noexcept {
    constexpr std::size_t kShort = std::size_t{256} << 10;
    return count * memory_.element_bytes() <= std::min(kShort, arena_.step_bytes());
  }
  /// The next step, in which a rank lays out `count` elements at the most (the same on all ranks).
  Step next(std::size_t count) noexcept { return arena_.next(count * memory_.element_bytes()); }
  /// The same of one of many steps of `most` elements at the most, which go round in as little memory as they can.
  Step next_of_many(std::size_t count, std::size_t most) noexcept {
    constexpr std::size_t kUnderWay = 3;  // what is laid out, what is read, and one between the two
    return arena_.next(count * memory_.element_bytes(), kUnderWay * StagingRing::whole(most * memory_.element_bytes()));
  }

  /// The next step, of so many bytes.
  Step next_of_bytes(std::size_t bytes) noexcept { return arena_.next(bytes); }
  std::size_t step_bytes() const noexcept { return arena_.step_bytes(); }

  /// Who lays something out must await `room`; then it does, and enters; who lays out nothing enters all the same.
  Until<Members> room(const Step& step) { return until(step, &may_enter); }
  /// Copies a range to the own bytes of the step, from element `at` on.
  void lay_out(const Step& step, std::size_t at, const Range& from) {
    lay_out(step, at * element_bytes(), readable(from));
  }
  void lay_out(const Step& step, std::size_t at_byte, std::span<const std::byte> from) {
    team_.commons.stores().copy(from, arena_.bytes(step, rank()) + at_byte);
  }
  void enter(const Step& step) {
    arena_.enter(step, call_);
    wake_sleepers();
  }

  /// All have entered, or one has: what they laid out can be read until this rank enters another step.
  Until<Members> entered(const Step& step) { return until(step, &has_entered); }
  Until<Members> entered(const Step& step, int member) { return until(step, &has_entered, member, member + 1); }
  /// Whether they do so within the time that one on its way may need.
  bool has_room_soon(const Step& step) { return arena_.may_enter(step) || has_room_in_a_while(step); }
  bool entered_soon(const Step& step, int from, int to);
  /// Takes a step as far as the others soon are there for it; `begun` tells how far, if not to the end. True: what the
  /// members from `first` to before `last` have laid out is there.
  template <typename LayOut>
  bool step_soon(const Step& step, Begun& begun, int first, int last, LayOut lay_out) {
    const bool has_room = has_room_soon(step);
    if (has_room) {
      lay_out();
      enter(step);
      if (entered_soon(step, first, last)) return true;
    }
    begun = {step, has_room};
    return false;
  }
  /// The bytes of a rank.
  const std::byte* laid_out(const Step& step, int member) const noexcept { return arena_.bytes(step, member); }
  /// Copies from them.
  void take(const Step& step, int member, std::size_t at, const Range& to) {
    take(step, member, at * element_bytes(), std::span(writable(to), memory_.bytes(to)));
  }
  void take(const Step& step, int member, std::size_t at_byte, std::span<std::byte> to);
  /// Combines what all ranks laid out from element `at` on, in rank order, this rank's own taken from `own`.
  void fold(const Step& step, std::size_t at, const Range& own, const Range& into) {
    fold(step, at * element_bytes(), memory_.readable(own), writable(into), own.count);
  }
  void fold(const Step& step, std::size_t at_byte, const std::byte* own, std::byte* into, std::size_t count);
  /// The same into the own bytes of the step, at the same place, for all to read: nobody else may need them.
  void fold_in_place(const Step& step, std::size_t at, const Range& own);

  /// A member's share of a step's work: see Arena. `finish` wakes nobody.
  bool claim(const Step& step, int of) noexcept { return arena_.claim(step, of); }
  void finish(const Step& step, int of, bool lacks = false) noexcept { arena_.finish(step, of, lacks); }
  bool lacks(int of) const noexcept { return arena_.lacks(of); }
  int worker(const Step& step, int of) const noexcept { return arena_.worker(step, of); }
  Until<Finished> finished(const Step& step, int of) { return {*operation_, Finished{this, step, of}, looks()}; }
  void wake_sleepers() {
    for (int member = 0; member < size(); ++member) {
      if (member != rank() && arena_.must_wake(member)) wake(member);
    }
  }
  /// The same of the share of who reads this rank's memory, and may have it write a part.
  Until<Finished> read_by(const Step& step, int reader) {
    return {*operation_, Finished{this, step, reader}, looks(), team_.member(reader)};
  }

  void copy(const Range& from, const Range& to) { put(readable(from), writable(to)); }
  /// Where a range lies. An empty one has no address.
  std::span<const std::byte> readable(const Range& range) const noexcept {
    return {memory_.readable(range), memory_.bytes(range)};
  }
  std::byte* writable(const Range& range) const noexcept { return memory_.writable(range); }
  std::size_t bytes(const Range& range) const noexcept { return memory_.bytes(range); }

  // Memory that others reach where it is, for a collective that lays nothing out.

  /// What a rank tells of its memory in a step.
  struct Exposed {
    ProcessWord word;  ///< with `process` and `address`: for who reads it there
    std::int64_t process = 0;
    std::uint64_t address = 0;
    std::uint32_t in_place = 0;
    std::uint32_t forbidden = 0;  ///< see Commons
    SharedRegions::Place input;   ///< among the buffers that all ranks map
    SharedRegions::Place output;
    std::uint64_t known = 0;  ///< see SharedRegions
  };
  static_assert(sizeof(Exposed) <= Arena::kInlineBytes);
  /// What it exposes, as this rank maps it; nullptr: it does not, or there is nothing.
  struct Mapped {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  using MappedRanks = std::vector<Mapped, PooledAllocator<Mapped>>;
  /// Whether anybody may have buffers that all ranks map: the same answer on every rank.
  bool may_be_mapped() const noexcept { return team_.commons.regions().any(); }
  std::size_t element_bytes() const noexcept { return memory_.element_bytes(); }
  Step next_exposed() noexcept { return arena_.next(sizeof(Exposed)); }
  /// Tells the others what they may read of this rank, and what they are to write; keeps all that it maps so far, which
  /// they reckon with.
  void expose(const Step& step, const Range& input, const Range& output = {});
  /// All others are done with that. Without this, this rank has given it up when this object ends.
  void conceal() noexcept { exposes_ = false; }
  /// After all have entered. What is mapped is so on every rank alike.
  MappedRanks mapped(const Step& step);
  Exposed exposed(const Step& step, int member) const;

  /// Combines so many elements of all inputs, from element `at` on, in rank order, and writes the result to all
  /// outputs.
  void fold_mapped(std::span<const Mapped> ranks, std::size_t at, std::size_t count);
  /// The same to a range of this rank's.
  void fold_mapped(std::span<const Mapped> ranks, std::size_t at, const Range& to);
  /// Copies from a member's input, from element `at` on: where it is mapped, or else out of its process. False: the
  /// member still writes a part, or it did not work, which `has_fetched` tells after `fetched`.
  bool fetch(const Step& step, const Mapped& from, int member, std::size_t at, const Range& to);
  Until<Fetched> fetched(int member) { return {*operation_, Fetched{this, member}, looks()}; }
  bool has_fetched(int member);
  /// To be awaited after reading what others expose. If one of them has given up meanwhile, its caller may have written
  /// to that; then this is never so, and the communicator fails.
  Until<Members> still_exposed(const Step& step) { return until(step, &exposes); }
  /// For what cannot be fetched.
  HostMemoryPort messages() const { return {*operation_, team_, memory_, in_place_, false}; }

  /// A member has so many bytes for this rank, which asked for others: to be awaited until the communicator fails.
  Until<Members> refuse(const Step& step, int member, std::size_t bytes, std::size_t wanted);

  bool crowded() const noexcept { return group_.engine().settings().oversubscribed; }
  /// See Commons::readable.
  std::optional<bool> readable() const noexcept { return team_.commons.readable(); }
  void found_readable(bool all) noexcept { team_.commons.found_readable(all); }
  /// A member has said that it may not read the others' memory any more: nobody does.
  void stop_fetching(int member);
  /// This rank may read every other's memory, and no link to one has been found to be too slow for that.
  bool reads_all(const Step& step) const;
  /// See Commons::trial.
  Trial& trial(Collective collective, std::size_t bytes) { return team_.commons.trial(collective, bytes); }
  Time now() const { return group_.engine().clock().now(); }
  /// A word of each rank in a step.
  Step next_word() noexcept { return arena_.next(sizeof(std::uint64_t)); }
  void show(const Step& step, std::uint64_t word);
  std::uint64_t shown(const Step& step, int member) const;

 private:
  /// A fetch over a link.
  struct Pull {
    Peer& from;
    std::span<std::byte> into;
    Exposed theirs;
    Link::Pulled state = Link::Pulled::no;
    int error = 0;
  };

  template <typename Test>
  bool soon(Test done, int from, int to);
  bool has_room_in_a_while(const Step& step);
  void wake(int member);
  int looks() const noexcept;
  Until<Members> until(const Step& step, Done done, int from, int to) {
    return {*operation_, Members{this, step, done, from, to}, looks()};
  }
  Until<Members> until(const Step& step, Done done) { return until(step, done, 0, size()); }

  static bool never(const DirectPort&, const Step&, int) { return false; }
  static bool exposes(const DirectPort& port, const Step&, int member) { return !port.arena_.has_given_up(member); }
  static bool may_enter(const DirectPort& port, const Step& step, int member) {
    return port.arena_.may_enter(step, member);
  }
  /// And whether it is in the same call; if not the communicator has failed, and nothing more comes of it.
  static bool has_entered(const DirectPort& port, const Step& step, int member) {
    Arena& arena = port.arena_;
    if (!arena.has_entered(member, step.number)) return false;
    if (arena.history(step, member) == arena.history(step, port.rank())) return true;
    port.report_mismatch(step, member);
    return false;
  }
  void report_mismatch(const Step& step, int member) const;

  void settle(Link::Pulled pulled);
  void put(std::span<const std::byte> result, std::byte* to) const noexcept;
  void fold_mapped_into(std::span<const Mapped> ranks, std::size_t at, std::size_t count, std::byte* into);

  Group& group_;
  Team& team_;
  const Call& call_;
  Operation* operation_ = nullptr;
  HostMemory& memory_;
  Arena& arena_;
  const bool in_place_;
  bool exposes_ = false;
  bool past_caches_ = false;  ///< results go there
  std::optional<Pull> pull_;  ///< the last one
  std::vector<std::shared_ptr<SharedMemory>, PooledAllocator<std::shared_ptr<SharedMemory>>> held_;
};

}  // namespace rondo::detail
