#include "collectives/direct_by_counts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <rondo/task.hpp>

#include "runtime/staging_ring.hpp"

namespace rondo::detail {
namespace {

/// What a rank has for another, and where that begins in all that it lays out. An entry for each rank is the first of
/// that; the one for itself says how much it is.
struct Entry {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  static std::size_t place(int rank) noexcept { return static_cast<std::size_t>(rank) * sizeof(Entry); }
  static std::size_t place_of_blocks(int ranks) noexcept { return StagingRing::whole(place(ranks)); }
};
using Entries = std::vector<Entry, PooledAllocator<Entry>>;

/// What one rank does. All that it lays out goes in windows, one in a step.
class ByCounts {
 public:
  ByCounts(DirectPort& port, const Plan& plan) : port_(port), plan_(plan), given_(entries()), got_(entries()) {
    std::uint64_t end = Entry::place_of_blocks(port.size());
    const std::size_t shares = entries() * port.element_bytes();
    if (plan.chunk != 0 && plan.chunk < (window_bytes_ - end) / shares) window_bytes_ = end + plan.chunk * shares;
    for (int turn = 1; turn < port.size(); ++turn) {
      const std::size_t bytes = port.bytes(block_for(after(turn)));
      given_[index(after(turn))] = {end, bytes};
      end += bytes;
    }
    given_[index(port.rank())] = {0, end};
    longest_ = end;
  }

  /// The rank so many turns after this one.
  int after(int turn) const noexcept { return (port_.rank() + turn) % port_.size(); }

  DirectPort::Step next() { return port_.next_of_bytes(window_bytes_); }
  std::size_t windows() const noexcept { return (longest_ + window_bytes_ - 1) / window_bytes_; }

  void copy_own() { port_.copy(block_for(port_.rank()), block_of(port_.rank())); }

  void lay_out(const DirectPort::Step& step, std::size_t window) {
    if (window == 0) port_.lay_out(step, 0, std::as_bytes(std::span(given_)));
    for (int turn = 1; turn < port_.size(); ++turn) {
      const int to = after(turn);
      const Part part = part_of(given_[index(to)], window);
      port_.lay_out(step, part.at, port_.readable(block_for(to)).subspan(part.begin, part.bytes));
    }
  }

  /// After `from` has entered the step of the first window.
  void look(const DirectPort::Step& step, int from) {
    const std::byte* const laid_out = port_.laid_out(step, from);
    Entry theirs;
    std::memcpy(&got_[index(from)], laid_out + Entry::place(port_.rank()), sizeof theirs);
    std::memcpy(&theirs, laid_out + Entry::place(from), sizeof theirs);
    longest_ = std::max(longest_, theirs.bytes);
  }
  bool agrees(int from) const { return got_[index(from)].bytes == port_.bytes(block_of(from)); }
  /// To be awaited.
  Until<DirectPort::Members> refuse(const DirectPort::Step& step, int from) {
    return port_.refuse(step, from, got_[index(from)].bytes, port_.bytes(block_of(from)));
  }
  bool has_part(int from, std::size_t window) const { return part_of(got_[index(from)], window).bytes > 0; }
  void take(const DirectPort::Step& step, int from, std::size_t window) {
    const Part part = part_of(got_[index(from)], window);
    port_.take(step, from, part.at, {port_.writable(block_of(from)) + part.begin, part.bytes});
  }

 private:
  /// What of a block lies in a window.
  struct Part {
    std::size_t begin = 0;
    std::size_t bytes = 0;
    std::size_t at = 0;  ///< in the window
  };
  Part part_of(const Entry& entry, std::size_t window) const noexcept {
    const std::uint64_t first = window * window_bytes_;
    const std::uint64_t begin = std::clamp(first, entry.begin, entry.begin + entry.bytes);
    const std::uint64_t end = std::clamp(first + window_bytes_, entry.begin, entry.begin + entry.bytes);
    return begin < end ? Part{begin - entry.begin, end - begin, begin - first} : Part{};
  }

  std::size_t entries() const noexcept { return static_cast<std::size_t>(port_.size()); }
  static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
  Range block_for(int to) const noexcept { return plan_.blocks.in(Buffer::input, to); }
  Range block_of(int from) const noexcept { return plan_.recv_blocks.in(Buffer::output, from); }

  DirectPort& port_;
  const Plan& plan_;
  Entries given_;
  Entries got_;
  std::uint64_t longest_ = 0;  ///< that has been seen, of all that a rank lays out
  std::size_t window_bytes_ = port_.step_bytes();
};

}  // namespace

bool has_room_for_counts(const DirectPort& port) noexcept {
  return 2 * Entry::place_of_blocks(port.size()) <= port.step_bytes();
}

Task run_by_counts(DirectPort& port, const Plan& plan, DirectPort::Begun begun) {
  ByCounts counts(port, plan);
  if (!begun.step) counts.copy_own();
  std::size_t window = 0;
  do {
    const auto step = begun.step ? *begun.step : counts.next();
    if (!begun.entered) {
      auto room = port.room(step);
      co_await room;
      counts.lay_out(step, window);
      port.enter(step);
    }
    begun = {};
    for (int turn = 1; turn < port.size(); ++turn) {
      const int from = counts.after(turn);
      if (window > 0 && !counts.has_part(from, window)) continue;
      auto there = port.entered(step, from);
      co_await there;
      if (window == 0) {
        counts.look(step, from);
        if (!counts.agrees(from)) {
          auto failed = counts.refuse(step, from);
          co_await failed;
        }
      }
      counts.take(step, from, window);
    }
  } while (++window < counts.windows());
}

bool run_by_counts_at_once(DirectPort& port, const Plan& plan, DirectPort::Begun& begun) {
  if (!port.is_short(plan.blocks.total())) return false;
  ByCounts counts(port, plan);
  counts.copy_own();
  const auto step = counts.next();
  if (!port.step_soon(step, begun, 0, port.size(), [&] { counts.lay_out(step, 0); })) return false;
  bool agree = true;
  for (int turn = 1; turn < port.size(); ++turn) {
    counts.look(step, counts.after(turn));
    agree &= counts.agrees(counts.after(turn));
  }
  if (!agree || counts.windows() > 1) {
    begun = {step, true};
    return false;
  }
  for (int turn = 1; turn < port.size(); ++turn) counts.take(step, counts.after(turn), 0);
  return true;
}

}  // namespace rondo::detail
