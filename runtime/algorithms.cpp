#include <algorithm>

#include <rondo/algorithms.hpp>

namespace rondo {
namespace {

using enum Algorithm;
using C = Collective;

// The first of each list serves every operator.
constexpr Algorithm kAllReduce[] = {recursive_doubling, tree, linear, double_star, ring, chain};
constexpr Algorithm kReduce[] = {tree, linear, ring, chain};
constexpr Algorithm kBroadcast[] = {tree, chain, linear};
constexpr Algorithm kScatter[] = {tree, linear};
constexpr Algorithm kAllGather[] = {ring, bruck, linear};
constexpr Algorithm kReduceScatter[] = {tree, ring, chain, linear};
constexpr Algorithm kAllToAll[] = {pairwise, linear};
constexpr Algorithm kBarrier[] = {dissemination, linear, double_star};
constexpr Algorithm kDirect[] = {direct};
constexpr Algorithm kDirectOrSliced[] = {direct, sliced};
constexpr Algorithm kDirectOrFetched[] = {direct, fetched};
constexpr Algorithm kDirectFetchedOrAdaptive[] = {direct, fetched, adaptive};

bool holds(std::span<const Algorithm> algorithms, Algorithm algorithm) {
  return std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
}

}  // namespace

std::span<const Algorithm> algorithms_of(Collective collective) noexcept {
  switch (collective) {
    case C::all_reduce: return kAllReduce;
    case C::reduce: return kReduce;
    case C::broadcast: return kBroadcast;
    case C::scatter:
    case C::gather: return kScatter;
    case C::all_gather: return kAllGather;
    case C::reduce_scatter: return kReduceScatter;
    case C::all_to_all: return kAllToAll;
    case C::barrier: return kBarrier;
    default: return {};
  }
}

std::span<const Algorithm> shared_algorithms_of(Collective collective) noexcept {
  switch (collective) {
    case C::none:
    case C::subgroup:
    case C::allocate: return {};
    case C::all_reduce:
    case C::reduce: return kDirectOrSliced;
    case C::reduce_scatter:
    case C::barrier: return kDirect;
    case C::all_gather:
    case C::all_to_all: return kDirectFetchedOrAdaptive;
    default: return kDirectOrFetched;
  }
}

bool has_leader(Collective collective) noexcept {
  return collective != C::barrier && !shared_algorithms_of(collective).empty();
}

bool has_two_levels(Collective collective) noexcept { return !shared_algorithms_of(collective).empty(); }

bool has_algorithm(Collective collective, Algorithm algorithm) noexcept {
  if (algorithm == two_level) return has_two_levels(collective);
  if (algorithm == leader) return has_leader(collective);
  return holds(algorithms_of(collective), algorithm) || holds(shared_algorithms_of(collective), algorithm);
}

}  // namespace rondo
