#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <rondo/call.hpp>

#include "runtime/staging_ring.hpp"
#include "transport/resting.hpp"
#include "transport/shared_memory.hpp"
#include "transport/take_for_writing.hpp"

namespace rondo::detail {

/// Memory that all members of a team (`team.hpp`) map, for collectives in which everyone reads what the others laid
/// out.
///
/// It works in steps, which all members take in the same order. A member enters a step by publishing its slot: the call
/// it is in, and the bytes it contributes (short ones in the slot, longer ones in its staging region). Entering a step
/// says that the member is done with everything of all steps before; so nothing is ever cleared, and no step ends with
/// a barrier: a slot is used again `kDepth` steps later, staged bytes when the ring comes round to them, and by then
/// `may_enter` has seen that everybody has gone on.
///
/// A step may have a second half, in which something is computed out of what all laid out: a share for each member,
/// done by that member, or by whoever claims it first. `finished` says that what came of it can be read, too. Nothing
/// of this is written before all have entered the step, when nobody looks for an earlier one any more; so one word for
/// each share serves every step.
///
/// Only this file knows the layout:
///
///     words     for each member: whether it rests, on which core it waits, whether it has given up
///     members   for each: its slots, what has become of its share
///     staging   for each: its region
class Arena {
 public:
  /// So many short collectives may a root be ahead of the others, in one turn of its core where they share it.
  static constexpr int kDepth = 64;
  static constexpr std::size_t kInlineBytes = 80;

  static std::size_t memory_bytes(int members, std::size_t staging_bytes);

  /// `memory` has `memory_bytes(members, staging_bytes)`, zeroed when it was made.
  Arena(SharedMemory memory, int rank, int members, std::size_t staging_bytes);

  int rank() const noexcept { return rank_; }
  int members() const noexcept { return members_; }
  /// The most that a member can contribute to one step.
  std::size_t step_bytes() const noexcept { return step_bytes_; }

  /// One member's part of one step.
  struct Step {
    std::uint64_t number = 0;
    std::uint64_t after = 0;  ///< everybody must have entered a step later than this before it may be entered
    std::size_t offset = 0;   ///< of a member's bytes in its region, unless they lie in its slot
    bool in_slots = true;
  };

  /// The next step, to which each member contributes `bytes` at the most (the same on all).
  Step next(std::size_t bytes) noexcept { return next(bytes, ring_.bytes()); }
  /// The same, of steps that are to go round in `lap` bytes of each region: which then stay in caches.
  Step next(std::size_t bytes, std::size_t lap) noexcept {
    ++step_;
    Step step{step_, step_ > kDepth ? step_ - kDepth : 0, 0, bytes <= kInlineBytes};
    if (!step.in_slots) {
      const StagingRing::Piece piece = ring_.take(bytes, step_, lap);
      step.offset = piece.offset;
      step.after = std::max(step.after, piece.after);
    }
    return step;
  }

  /// Whether it is known already that nobody reads any more what this member writes for the step.
  bool may_enter(const Step& step) noexcept {
    if (step.after < all_known_) return true;
    all_known_ = step.number;
    for (int member = 0; member < members_; ++member) {
      if (member != rank_) all_known_ = std::min(all_known_, known_[static_cast<std::size_t>(member)]);
    }
    return step.after < all_known_;
  }
  /// Whether what this member writes for the step is no longer read by `member`.
  bool may_enter(const Step& step, int member) noexcept {
    if (step.after == 0 || known_[static_cast<std::size_t>(member)] > step.after) return true;
    // Who is found far on need not be looked at for a while.
    const std::uint64_t later = std::min(step.after + kDepth / 2, step.number - 1);
    return has_entered(member, later) || has_entered(member, step.after + 1);
  }
  bool has_entered(int member, std::uint64_t step) noexcept {
    std::uint64_t& known = known_[static_cast<std::size_t>(member)];
    if (known < step) {
      known = std::max(known, slot(member, step).step.load(std::memory_order_acquire));
      // Of a member that is ahead the next one is there when it is looked for.
      if (known >= step) __builtin_prefetch(&slot(member, step + 1));
    }
    return known >= step;
  }

  /// Where `member` lays out its bytes. Of others only after they have entered.
  std::byte* bytes(const Step& step, int member) const noexcept {
    return step.in_slots ? slot(member, step.number).bytes : region(member) + step.offset;
  }
  const Call& call(const Step& step, int member) const noexcept { return slot(member, step.number).call; }
  /// Of all calls made here, up to and including this one.
  std::uint64_t history(const Step& step, int member) const noexcept { return slot(member, step.number).history; }

  void enter(const Step& step, const Call& call) noexcept {
    history_ = mix(history_, call);
    Slot& mine = slot(rank_, step.number);
    mine.call = call;
    mine.history = history_;
    mine.step.store(step.number, std::memory_order_release);
    take_for_writing(&slot(rank_, step.number + kTakenAhead));
  }

  /// After all have entered: true if nobody has claimed the share of `of` before. Who has claimed it must finish it.
  bool claim(const Step& step, int of) noexcept;
  /// `lacks`: something of it could not be done here.
  void finish(const Step& step, int of, bool lacks = false) noexcept {
    share(of).store(word_of(step, rank_) | kFinished | (lacks ? kLacks : 0), std::memory_order_release);
  }
  bool has_finished(const Step& step, int of) const noexcept {
    return share(of).load(std::memory_order_acquire) >= (word_of(step, 0) | kFinished);
  }
  /// After it has been finished.
  bool lacks(int of) const noexcept { return (share(of).load(std::memory_order_relaxed) & kLacks) != 0; }
  /// Who does, or has done, the share of `of`: who has claimed it, or else that member.
  int worker(const Step& step, int of) const noexcept;

  /// Who sleeps must be woken after `enter` and `finish`.
  bool must_wake(int member) noexcept { return Resting::must_wake(resting(member)); }
  void rest(bool resting_now) noexcept { Resting::rest(resting(rank_), resting_now); }

  /// What this member has others read where it lies, it takes back before they have told that they are done: the
  /// communicator fails. Before its memory is the caller's again.
  void give_up() noexcept;
  /// Asked after reading what `member` has others read: if it has not, that was not the caller's yet.
  bool has_given_up(int member) const noexcept;

  /// On which core this member waits. Written when that changes, so all have it in their caches.
  void wait_on_core(int core) noexcept {
    std::atomic<std::uint16_t>& mine = words_[rank_].core;
    const auto here = static_cast<std::uint16_t>(core + 1);
    if (mine.load(std::memory_order_relaxed) != here) mine.store(here, std::memory_order_relaxed);
  }
  /// The one on which `member` waited last, or -1.
  int core_of(int member) const noexcept {
    return static_cast<int>(words_[member].core.load(std::memory_order_relaxed)) - 1;
  }
  /// Whether `member` was last seen to wait on the core of this one, so that it may be in line for it. True if unknown.
  bool may_want_core(int member) const noexcept {
    const int there = core_of(member);
    return there < 0 || there == core_of(rank_);
  }

 private:
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> step;
    std::uint64_t history;
    Call call;
    std::byte bytes[kInlineBytes];
  };
  static_assert(sizeof(Slot) == 128);
  struct Words {
    Resting::Word resting;
    std::atomic<std::uint16_t> core;  ///< counted from 1
    std::atomic<std::uint16_t> given_up;
  };
  struct Member {
    Slot slots[kDepth];
    // The last step in which the share was claimed or finished: its number, kFinished, kLacks, and by whom.
    alignas(128) std::atomic<std::uint64_t> share;
  };
  static constexpr int kWhoBits = 15;
  static constexpr std::uint64_t kLacks = std::uint64_t{1} << kWhoBits;
  static constexpr std::uint64_t kFinished = kLacks << 1;

  // So far ahead that nobody looks at that slot yet.
  static constexpr std::uint64_t kTakenAhead = 4;

  // The call's products wait neither for each other nor for the calls before.
  static std::uint64_t mix(std::uint64_t history, const Call& call) noexcept {
    static_assert(sizeof(Call) == 4 * sizeof(std::uint64_t));
    const auto word = [&call](std::size_t index) {
      std::uint64_t value = 0;
      std::memcpy(&value, reinterpret_cast<const std::byte*>(&call) + index * sizeof value, sizeof value);
      return value;
    };
    const std::uint64_t mixed = (word(0) * 0x9e3779b97f4a7c15u ^ word(1) * 0xbf58476d1ce4e5b9u) +
                                (word(2) * 0x94d049bb133111ebu ^ word(3) * 0xd6e8feb86659fd93u);
    return (std::rotl(history, 23) ^ mixed) * 0x9e3779b97f4a7c15u;
  }

  static std::size_t words_bytes(int members);

  Member& member(int rank) const noexcept { return first_[rank]; }
  Slot& slot(int rank, std::uint64_t step) const noexcept { return member(rank).slots[step % kDepth]; }
  std::atomic<std::uint64_t>& share(int of) const noexcept { return member(of).share; }
  static std::uint64_t word_of(const Step& step, int who) noexcept {
    return step.number << (kWhoBits + 2) | static_cast<std::uint64_t>(who);
  }
  Resting::Word& resting(int rank) const noexcept { return words_[rank].resting; }
  std::byte* region(int rank) const noexcept { return staging_ + static_cast<std::size_t>(rank) * staging_bytes_; }

  SharedMemory memory_;
  const int rank_;
  const int members_;
  const std::size_t staging_bytes_;
  Words* const words_;
  Member* const first_;
  std::byte* const staging_;

  StagingRing ring_;
  const std::size_t step_bytes_ = ring_.most();
  std::uint64_t step_ = 0;
  std::uint64_t history_ = 0;
  std::vector<std::uint64_t> known_;  ///< of each member: a step that it has entered
  std::uint64_t all_known_ = 1;       ///< a step that all have entered, or 1: nobody needs an earlier one
};

}  // namespace rondo::detail
