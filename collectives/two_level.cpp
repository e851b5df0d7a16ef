#include "collectives/two_level.hpp"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <rondo/algorithm/dispatch.hpp>

#include "collectives/team_collective.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

/// What a team does as its part of the whole. Who is the root, or has something to give or to get, has a buffer for it;
/// an input that is (a part of) the output is so already.
struct Part {
  Collective collective;
  const std::byte* input;
  std::byte* output;
  Blocks blocks;
  int root = 0;  // its place in the team
};

/// Two levels, as one rank goes through them.
class TwoLevel {
 public:
  TwoLevel(Operation& operation, HostMemory& memory, const Plan& plan)
      : operation_(operation),
        hosts_(*operation.group().hosts()),
        memory_(memory),
        plan_(plan),
        rank_(operation.group().rank()),
        input_(memory.input()),
        output_(memory.output()) {}

  Task run() {
    switch (plan_.collective) {
      case Collective::all_reduce: return is_sliced() ? all_reduce_in_slices() : all_reduce();
      case Collective::reduce: return reduce();
      case Collective::broadcast: return broadcast();
      case Collective::scatter: return scatter();
      case Collective::gather: return gather();
      case Collective::all_gather: return all_gather();
      case Collective::reduce_scatter: return reduce_scatter();
      case Collective::all_to_all: return all_to_all();
      default: return barrier();
    }
  }

 private:
  Task barrier() {
    Task came = on_host({Collective::barrier, nullptr, nullptr, {}});
    co_await came;
    Task met = between(firsts(), {Collective::barrier, nullptr, nullptr, {}});
    co_await met;
    Task released = on_host({Collective::barrier, nullptr, nullptr, {}});
    co_await released;
  }

  Task all_reduce() {
    Task reduced = on_host({Collective::reduce, input_, is_first() ? output_ : nullptr, whole_on_host()});
    co_await reduced;
    Task combined = between(firsts(), {Collective::all_reduce, output_, output_, between_hosts(count())});
    co_await combined;
    Task told = on_host({Collective::broadcast, nullptr, output_, whole_on_host()});
    co_await told;
  }

  bool is_sliced() const noexcept {
    return hosts_.fewest() > 1 && bytes(count()) >= operation_.group().engine().settings().slices_from;
  }

  Task all_reduce_in_slices() {
    const int place = hosts_.place(rank_);
    const Blocks slices = Blocks::even(count(), hosts_.within().size(), hosts_.fewest());
    std::byte* const own = output_ + bytes(slices.begin(place));
    Task reduced = on_host({Collective::reduce_scatter, input_, own, slices});
    co_await reduced;
    Task combined =
        between(hosts_.across(place), {Collective::all_reduce, own, own, between_hosts(slices.count(place))});
    co_await combined;
    Task gathered = on_host({Collective::all_gather, own, output_, slices});
    co_await gathered;
  }

  Task reduce() {
    std::byte* const partial = is_root() ? output_ : carries() ? scratch(count()) : nullptr;
    Task reduced = on_host({Collective::reduce, input_, partial, whole_on_host(), carrier()});
    co_await reduced;
    Task combined = between(carriers(), {Collective::reduce, partial, output_, between_hosts(count()), root_host()});
    co_await combined;
  }

  Task broadcast() {
    // Who shares memory with the root need not wait for the others.
    const bool has_root = hosts_.host(rank_) == root_host();
    if (has_root) {
      Task told = on_host({Collective::broadcast, nullptr, output_, whole_on_host(), carrier()});
      co_await told;
    }
    Task sent = between(carriers(), {Collective::broadcast, nullptr, output_, between_hosts(count()), root_host()});
    co_await sent;
    if (!has_root) {
      Task told = on_host({Collective::broadcast, nullptr, output_, whole_on_host(), carrier()});
      co_await told;
    }
  }

  Task scatter() {
    const Blocks blocks = blocks_on_host();
    std::byte* const block = carries() ? scratch(blocks.total()) : nullptr;
    Task sent = between(carriers(), {Collective::scatter, input_, block, blocks_of_hosts(), root_host()});
    co_await sent;
    Task dealt = on_host({Collective::scatter, block, output_, blocks, carrier()});
    co_await dealt;
  }

  Task gather() {
    const Blocks blocks = blocks_on_host();
    std::byte* const block = carries() ? scratch(blocks.total()) : nullptr;
    Task collected = on_host({Collective::gather, input_, block, blocks, carrier()});
    co_await collected;
    Task sent = between(carriers(), {Collective::gather, block, output_, blocks_of_hosts(), root_host()});
    co_await sent;
  }

  Task all_gather() {
    const Blocks all = blocks_of_hosts();
    std::byte* const block = output_ + bytes(all.begin(hosts_.host(rank_)));
    Task collected = on_host({Collective::gather, input_, is_first() ? block : nullptr, blocks_on_host()});
    co_await collected;
    Task exchanged = between(firsts(), {Collective::all_gather, block, output_, all});
    co_await exchanged;
    Task told = on_host({Collective::broadcast, nullptr, output_, whole_on_host()});
    co_await told;
  }

  Task reduce_scatter() {
    const Blocks blocks = blocks_on_host();
    std::byte* const partial = is_first() ? scratch(count()) : nullptr;
    std::byte* const block = is_first() ? scratch(blocks.total()) : nullptr;
    Task reduced = on_host({Collective::reduce, input_, partial, whole_on_host()});
    co_await reduced;
    Task combined = between(firsts(), {Collective::reduce_scatter, partial, block, blocks_of_hosts()});
    co_await combined;
    Task dealt = on_host({Collective::scatter, block, output_, blocks});
    co_await dealt;
  }

  // Of H hosts with K ranks each: what this host has for the k-th rank of every other goes there from the k-th of this.
  Task all_to_all() {
    const auto hosts = static_cast<std::size_t>(hosts_.count());
    const auto ranks = static_cast<std::size_t>(hosts_.within().size());
    std::byte* const ordered = scratch(count());
    std::byte* const collected = scratch(count());
    transpose(input_, ordered, hosts, ranks);
    Task exchanged = on_host({Collective::all_to_all, ordered, collected, whole_on_host()});
    co_await exchanged;
    transpose(collected, ordered, ranks, hosts);
    Task sent =
        between(hosts_.across(hosts_.place(rank_)), {Collective::all_to_all, ordered, output_, between_hosts(count())});
    co_await sent;
  }

  /// A matrix of the ranks' blocks.
  void transpose(const std::byte* from, std::byte* to, std::size_t rows, std::size_t columns) const {
    const std::size_t block = bytes(plan_.blocks.count(0));
    if (block == 0) return;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        std::memcpy(to + (column * rows + row) * block, from + (row * columns + column) * block, block);
      }
    }
  }

  // The parts. What `between` makes is complete: there the operator's last pass is done, for the inputs of all ranks.

  Task on_host(Part part) { return among(hosts_.within(), std::move(part), true); }
  Task between(Team& team, Part part) { return among(team, std::move(part), false); }

  Task among(Team& team, Part part, bool one_host) {
    if (team.rank < 0) co_return;
    HostMemory memory(operation_.group().engine(), memory_.element_bytes(), memory_.reduction(),
                      one_host ? 1 : operation_.group().size());
    memory.set(part.input, part.output);
    Plan plan;
    plan.collective = part.collective;
    plan.root = part.root;
    plan.commutative = plan_.commutative;
    plan.chunk = plan_.chunk;
    plan.blocks = std::move(part.blocks);
    if (part.collective == Collective::all_to_all) plan.recv_blocks = plan.blocks;
    if (one_host && team.size() > 1) {
      const Plan direct = decided(plan, memory.element_bytes(), operation_, team, Nearness::memory);
      bool done = false;
      Task run = run_in_arena(operation_, team, memory, direct, false, {}, done);
      co_await run;
      if (done) co_return;
    }
    const Nearness nearness = one_host ? Nearness::any : Nearness::none;
    plan = decided(std::move(plan), memory.element_bytes(), operation_, team, nearness);
    HostMemoryPort port(operation_, team, memory, false, false);
    Task run = run_collective(port, plan);
    co_await run;
  }

  // Who takes part: the first of each host, or the root and the rank of each other host at the same place.

  Team& firsts() noexcept { return hosts_.across(0); }
  bool is_first() const noexcept { return hosts_.place(rank_) == 0; }
  Team& carriers() noexcept { return hosts_.across(hosts_.place(plan_.root)); }
  bool carries() noexcept { return carriers().rank >= 0; }
  int carrier() noexcept { return hosts_.place(plan_.root) % hosts_.within().size(); }
  int root_host() const noexcept { return hosts_.host(plan_.root); }
  bool is_root() const noexcept { return rank_ == plan_.root; }

  // Of what.

  std::size_t count() const noexcept { return plan_.blocks.total(); }
  std::size_t bytes(std::size_t elements) const noexcept { return elements * memory_.element_bytes(); }
  std::byte* scratch(std::size_t elements) { return memory_.writable(memory_.scratch(elements)); }
  Blocks whole_on_host() noexcept { return Blocks::even(count(), hosts_.within().size()); }
  Blocks between_hosts(std::size_t elements) const noexcept { return Blocks::even(elements, hosts_.count()); }
  /// What the ranks of this host have of the vector, which must lie together, as what each host has must.
  Blocks blocks_on_host() const {
    std::vector<std::size_t> counts;
    for (const int member : hosts_.within().members) counts.push_back(plan_.blocks.count(member));
    return Blocks::of_counts(counts);
  }
  Blocks blocks_of_hosts() const {
    std::vector<std::size_t> counts(static_cast<std::size_t>(hosts_.count()));
    for (int rank = 0; rank < operation_.group().size(); ++rank) {
      counts[static_cast<std::size_t>(hosts_.host(rank))] += plan_.blocks.count(rank);
    }
    return Blocks::of_counts(counts);
  }

  Operation& operation_;
  Hosts& hosts_;
  HostMemory& memory_;
  const Plan& plan_;
  const int rank_;
  const std::byte* const input_;
  std::byte* const output_;
};

}  // namespace

Task run_two_level(Operation& operation, HostMemory& memory, const Plan& plan) {
  Team& neighbours = operation.group().neighbours();
  std::optional<Turn> turn;
  if (neighbours.size() > 1) {
    turn.emplace(operation, neighbours);
    Task came = turn->come_with_arena();
    co_await came;
    if (!neighbours.commons.arena()) turn.reset();
  }
  TwoLevel levels(operation, memory, plan);
  Task run = levels.run();
  co_await run;
}

}  // namespace rondo::detail
