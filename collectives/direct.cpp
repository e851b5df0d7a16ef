#include "collectives/direct.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collectives/direct_by_counts.hpp"
#include "collectives/direct_moves.hpp"
#include "collectives/mapped.hpp"
#include "collectives/sliced.hpp"
#include "transport/shared_stores.hpp"

namespace rondo::detail {
namespace {

/// What one rank does in one collective by `direct`: what it lays out of a window, and from whom it takes what. A
/// window is `count` elements from `begin` on: of the vector, or of every rank's block.
class Direct : public DirectMoves {
 public:
  Direct(DirectPort& port, const Plan& plan, bool is_fetched = false)
      : DirectMoves(plan, port.rank(), port.size(), port.in_place()), port_(port), is_fetched_(is_fetched) {}

  std::size_t shares() const noexcept { return shares_laid_out(plan_.collective, size_); }
  /// Elements that are cut into windows.
  std::size_t length() const noexcept {
    switch (plan_.collective) {
      case Collective::barrier: return 0;
      case Collective::all_reduce:
      case Collective::reduce:
      case Collective::broadcast: return plan_.blocks.total();
      default: return plan_.blocks.largest();
    }
  }

  std::size_t length_bytes() const noexcept { return length() * port_.element_bytes(); }

  void copy_own() { port_.copy(kept().from, kept().to); }

  void lay_out(const DirectPort::Step& step, std::size_t begin, std::size_t count) {
    switch (plan_.collective) {
      case Collective::all_reduce: return port_.lay_out(step, 0, whole(Buffer::input).part(begin, count));
      case Collective::reduce:
        if (!is_root()) port_.lay_out(step, 0, whole(Buffer::input).part(begin, count));
        return;
      case Collective::broadcast:
        if (is_root()) port_.lay_out(step, 0, whole(Buffer::output).part(begin, count));
        return;
      case Collective::gather:
        if (!is_root()) port_.lay_out(step, 0, piece(own_input(), begin, count));
        return;
      case Collective::all_gather: return port_.lay_out(step, 0, piece(own_input(), begin, count));
      case Collective::scatter:
        if (!is_root()) return;
        [[fallthrough]];
      case Collective::reduce_scatter:
      case Collective::all_to_all:
        for (int of = 0; of < size_; ++of) {
          if (of != rank_)
            port_.lay_out(step, place(of, count), piece(plan_.blocks.in(Buffer::input, of), begin, count));
        }
        return;
      default: return;
    }
  }

  void take(const DirectPort::Step& step, int member, std::size_t begin, std::size_t count) {
    switch (plan_.collective) {
      case Collective::broadcast: return port_.take(step, member, 0, whole(Buffer::output).part(begin, count));
      case Collective::scatter: return port_.take(step, member, place(rank_, count), piece(own_output(), begin, count));
      case Collective::gather:
      case Collective::all_gather:
        return port_.take(step, member, 0, piece(plan_.blocks.in(Buffer::output, member), begin, count));
      case Collective::all_to_all:
        return port_.take(step, member, place(rank_, count),
                          piece(plan_.recv_blocks.in(Buffer::output, member), begin, count));
      default: return;
    }
  }

  void fold(const DirectPort::Step& step, std::size_t begin, std::size_t count) {
    if (plan_.collective == Collective::reduce_scatter) {
      const Range own = piece(plan_.blocks.in(Buffer::input, rank_), begin, count);
      return port_.fold(step, place(rank_, count), own, piece(own_output(), begin, count));
    }
    port_.fold(step, 0, whole(Buffer::input).part(begin, count), whole(Buffer::output).part(begin, count));
  }

  // Without laying anything out: readers take what they need out of its owner's memory, one copy instead of two. That
  // is mapped (`allocate`), or fetched by the operating system.

  bool combines_wholes() const noexcept {
    return plan_.collective == Collective::all_reduce || plan_.collective == Collective::reduce;
  }
  /// Worth trying: the same answer on every rank.
  bool may_expose() const { return may_fetch() || (port_.may_be_mapped() && worth_mapping()); }
  bool worth_mapping() const { return length_bytes() >= least_mapped_bytes(plan_.collective, port_.crowded()); }
  bool may_fetch() const { return is_fetched_ && port_.readable().value_or(true); }
  /// Of a collective of even shares.
  Script script() const {
    Script script;
    script.most = length() * shares();
    script.worth_mapping = worth_mapping();
    if (length_bytes() >= SharedStores::kLeast) script.touched = touched();
    script.kept = port_.readable(kept().from);
    script.kept_in = port_.writable(kept().to);
    const auto [first, last] = sources();
    script.first_source = first;
    script.last_source = last;
    script.at = offset_in_offered() * port_.element_bytes();
    if (is_owner(rank_)) lay_out(script);
    if (folds()) {
      const bool blocks = plan_.collective == Collective::reduce_scatter;
      const Range own = blocks ? plan_.blocks.in(Buffer::input, rank_) : whole(Buffer::input);
      script.own = port_.readable(own).data();
      script.count = own.count;
      script.into = port_.writable(blocks ? own_output() : whole(Buffer::output));
    } else if (first < last) {
      script.into = port_.writable(place_for(first));
      script.bytes = port_.readable(place_for(first)).size();
      script.stride = last - first > 1 ? script.bytes : 0;
    }
    return script;
  }

 private:
  // In one copy, with what nobody reads of it, unless that takes longer than a second one.
  void lay_out(Script& script) const {
    constexpr std::size_t kWorthACopy = 1024;
    script.laid_out = port_.readable(offered());
    const std::size_t own = shares() > 1 ? script.laid_out.size() / shares() : 0;
    if (own < kWorthACopy) return;
    script.behind = script.at + own;
    script.laid_out_behind = script.laid_out.subspan(script.behind);
    script.laid_out = script.laid_out.first(script.at);
  }
  static std::size_t place(int of, std::size_t count) noexcept { return static_cast<std::size_t>(of) * count; }
  // Blocks may be shorter than the longest.
  static Range piece(const Range& block, std::size_t begin, std::size_t count) noexcept {
    const std::size_t from = std::min(begin, block.count);
    return block.part(from, std::min(count, block.count - from));
  }

  DirectPort& port_;
  const bool is_fetched_;
};

/// Finds out, once for all members alike, whether they may read each other's memory.
Task find_readable(DirectPort& port, const DirectPort::Step& exposed) {
  const auto step = port.next_word();
  auto room = port.room(step);
  co_await room;
  port.show(step, port.reads_all(exposed) ? 1 : 0);
  port.enter(step);
  auto all = port.entered(step);
  co_await all;
  bool readable = true;
  for (int member = 0; member < port.size(); ++member) readable &= port.shown(step, member) == 1;
  port.found_readable(readable);
}

/// Waits until all have read what they need of this rank. Who could not says so, and it comes as a message: others may
/// have gone on.
Task make_up(DirectPort& port, const Direct& direct, const DirectPort::Step& step, bool lacks) {
  HostMemoryPort messages = port.messages();
  const Direct::Ranks sources = lacks ? direct.sources() : Direct::Ranks{0, 0};
  const Direct::Ranks readers = direct.readers();
  for (int turn = 1; turn < port.size(); ++turn) {
    const int reader = (port.rank() + turn) % port.size();
    const int owner = (port.rank() + port.size() - turn) % port.size();
    auto received = messages.recv(sources.has(owner) ? direct.place_for(owner) : Range{}, owner);
    if (readers.has(reader)) {
      auto read = port.read_by(step, reader);
      co_await read;
      auto sent = messages.send(port.lacks(reader) ? direct.offered_to(reader) : Range{}, reader);
      co_await sent;
    }
    co_await received;
  }
}

/// `done` stays false, on all ranks alike, where they cannot do it.
Task run_exposed(DirectPort& port, Direct& direct, bool& done) {
  const auto step = port.next_exposed();
  auto room = port.room(step);
  co_await room;
  port.expose(step, direct.offered());
  port.enter(step);
  auto all = port.entered(step);
  co_await all;
  const DirectPort::MappedRanks ranks = port.mapped(step);
  bool mapped = true;
  bool overwritten = false;
  for (int member = 0; member < port.size(); ++member) {
    if (port.exposed(step, member).forbidden != 0) port.stop_fetching(member);
    mapped &= !direct.is_owner(member) || ranks[static_cast<std::size_t>(member)].input != nullptr;
    overwritten |= direct.overwrites() && port.exposed(step, member).in_place != 0;
  }
  if (overwritten) co_return;
  if (!mapped) {
    if (!direct.may_fetch()) co_return;
    if (!port.readable()) {
      Task found = find_readable(port, step);
      co_await found;
    }
    if (!*port.readable()) co_return;
  }
  done = true;

  direct.copy_own();
  const Direct::Ranks sources = direct.sources();
  if (direct.folds()) port.fold_mapped(ranks, direct.offset_in_offered(), direct.place_for(port.rank()));
  bool lacks = false;
  for (int turn = 1; turn < port.size() && !direct.folds() && !lacks; ++turn) {
    const int member = (port.rank() + turn) % port.size();
    if (!sources.has(member)) continue;
    const DirectPort::Mapped& from = ranks[static_cast<std::size_t>(member)];
    if (port.fetch(step, from, member, direct.offset_in_offered(), direct.place_for(member))) continue;
    auto fetched = port.fetched(member);
    co_await fetched;
    lacks = !port.has_fetched(member);
  }
  auto good = port.still_exposed(step);
  co_await good;
  port.finish(step, port.rank(), lacks);
  port.wake_sleepers();
  Task made_up = make_up(port, direct, step, lacks);
  co_await made_up;
}

Task run_windows(DirectPort& port, const Plan& plan, DirectPort::Begun begun, bool is_fetched) {
  Direct direct(port, plan, is_fetched);
  const std::size_t length = direct.length();
  const std::size_t window = port.window(plan.chunk, direct.shares());
  const Direct::Ranks sources = direct.sources();
  if (!begun.step && direct.may_expose()) {
    bool done = false;
    Task exposed = direct.combines_wholes() ? run_mapped(port, plan, done) : run_exposed(port, direct, done);
    co_await exposed;
    port.conceal();
    if (done) co_return;
  }
  if (!begun.step) direct.copy_own();
  // The one step of a short one may be taken by `next` on the spot; where ranks share cores, a root goes far ahead.
  const bool in_chunks = plan.chunk != 0 && length > window && !port.crowded();
  const auto next = [&](std::size_t count) {
    const std::size_t shares = direct.shares();
    return in_chunks ? port.next_of_many(count * shares, window * shares) : port.next(count * shares);
  };
  std::size_t begin = 0;
  // At least one step, so that calls which differ meet.
  do {
    const std::size_t count = std::min(window, length - begin);
    const auto step = begun.step ? *begun.step : next(count);
    if (!begun.entered) {
      auto room = port.room(step);
      co_await room;
      direct.lay_out(step, begin, count);
      port.enter(step);
    }
    if (direct.folds()) {
      auto all = port.entered(step);
      co_await all;
      direct.fold(step, begin, count);
    } else {
      for (int turn = 1; turn < port.size(); ++turn) {
        const int member = (port.rank() + turn) % port.size();
        if (!sources.has(member)) continue;
        auto there = port.entered(step, member);
        co_await there;
        direct.take(step, member, begin, count);
      }
    }
    begun = {};
    begin += count;
  } while (begin < length);
}

/// All members tell what their calls took, and take the same for the faster way.
Task settle(DirectPort& port, Trial& trial) {
  const auto step = port.next_word();
  auto room = port.room(step);
  co_await room;
  port.show(step, std::bit_cast<std::uint64_t>(trial.found()));
  port.enter(step);
  auto all = port.entered(step);
  co_await all;
  Trial::Times longest{};
  for (int member = 0; member < port.size(); ++member) {
    const auto theirs = std::bit_cast<Trial::Times>(port.shown(step, member));
    for (const std::size_t way : {0U, 1U}) longest[way] = std::max(longest[way], theirs[way]);
  }
  trial.settle(longest);
}

Task run_adaptive(DirectPort& port, const Plan& plan) {
  const std::size_t bytes = Direct(port, plan).length_bytes();
  Trial& trial = port.trial(plan.collective, bytes);
  if (trial.due()) {
    Task settled = settle(port, trial);
    co_await settled;
  }
  const Time begin = port.now();
  Task run = run_windows(port, plan, {}, trial.way() == 1);
  co_await run;
  trial.took(port.now() - begin, bytes);
}

}  // namespace

std::size_t shares_laid_out(Collective collective, int ranks) noexcept {
  switch (collective) {
    case Collective::scatter:
    case Collective::reduce_scatter:
    case Collective::all_to_all: return static_cast<std::size_t>(ranks);
    default: return 1;
  }
}

std::size_t least_mapped_bytes(Collective collective, bool crowded) noexcept {
  // The root of a broadcast, which need not wait for anybody otherwise, waits for all to have had a turn on a core.
  const bool waits_for_turns = collective == Collective::broadcast && crowded;
  return std::size_t{waits_for_turns ? 128U : 32U} << 10;
}

bool fits(const DirectPort& port, const Plan& plan) noexcept {
  if (plan.by_own_counts) return has_room_for_counts(port);
  return static_cast<std::size_t>(port.size()) * port.element_bytes() <= port.step_bytes();
}

Task run_direct(DirectPort& port, const Plan& plan, const DirectPort::Begun& begun) {
  port.expect_to_touch(DirectMoves(plan, port.rank(), port.size(), port.in_place()).touched());
  if (plan.by_own_counts) return run_by_counts(port, plan, begun);
  switch (plan.algorithm) {
    case Algorithm::sliced: return run_sliced(port, plan);
    case Algorithm::adaptive: return run_adaptive(port, plan);
    default: return run_windows(port, plan, begun, plan.algorithm == Algorithm::fetched);
  }
}

bool run_at_once(DirectPort& port, const Plan& plan, DirectPort::Begun& begun) {
  if (!fits(port, plan)) return false;
  if (plan.by_own_counts) return run_by_counts_at_once(port, plan, begun);
  Direct direct(port, plan);
  const std::size_t length = direct.length();
  const std::size_t count = length * direct.shares();
  if (!port.is_short(count) || (plan.chunk != 0 && length > plan.chunk) || direct.may_expose()) return false;
  port.expect_to_touch(direct.touched());
  direct.copy_own();
  const auto step = port.next(count);
  const Direct::Ranks sources = direct.sources();
  const auto lay_out = [&] { direct.lay_out(step, 0, length); };
  if (!port.step_soon(step, begun, sources.first, sources.last, lay_out)) return false;
  if (direct.folds()) {
    direct.fold(step, 0, length);
    return true;
  }
  for (int member = sources.first; member < sources.last; ++member) {
    if (member != port.rank()) direct.take(step, member, 0, length);
  }
  return true;
}

Script script_of(DirectPort& port, const Plan& plan) { return Direct(port, plan).script(); }

bool repeat(DirectPort& port, const Script& script, DirectPort::Begun& begun) {
  if (script.worth_mapping && port.may_be_mapped()) return false;
  if (script.touched > 0) port.expect_to_touch(script.touched);
  copy_bytes(script.kept, script.kept_in);
  const auto step = port.next(script.most);
  const auto lay_out = [&] {
    port.lay_out(step, 0, script.laid_out);
    if (!script.laid_out_behind.empty()) port.lay_out(step, script.behind, script.laid_out_behind);
  };
  if (!port.step_soon(step, begun, script.first_source, script.last_source, lay_out)) return false;
  if (script.count > 0) {
    port.fold(step, script.at, script.own, script.into, script.count);
    return true;
  }
  for (int member = script.first_source; member < script.last_source; ++member) {
    std::byte* const into = script.into + static_cast<std::size_t>(member - script.first_source) * script.stride;
    if (member != port.rank()) port.take(step, member, script.at, std::span(into, script.bytes));
  }
  return true;
}

}  // namespace rondo::detail
