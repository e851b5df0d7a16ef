#pragma once

#include <rondo/algorithm/dispatch.hpp>

namespace rondo {

/// The stated cost of an algorithm; all zero for a world of one, for nothing to move, and for pairs that do not exist.
/// For a barrier, `count` 1 says that there is something to do.
constexpr Cost cost_of(Collective collective, Algorithm algorithm, const Shape& shape) {
  if (shape.size < 2 || shape.count == 0) return {};
  switch (detail::pair_of(collective, algorithm)) {
    case detail::pair_of(Collective::all_reduce, Algorithm::ring): return ring_all_reduce_cost(shape);
    case detail::pair_of(Collective::all_reduce, Algorithm::tree): return tree_all_reduce_cost(shape);
    case detail::pair_of(Collective::all_reduce, Algorithm::recursive_doubling):
      return recursive_doubling_all_reduce_cost(shape);
    case detail::pair_of(Collective::all_reduce, Algorithm::linear): return linear_all_reduce_cost(shape);
    case detail::pair_of(Collective::all_reduce, Algorithm::double_star): return double_star_all_reduce_cost(shape);
    case detail::pair_of(Collective::all_reduce, Algorithm::chain): return chain_all_reduce_cost(shape);
    case detail::pair_of(Collective::reduce, Algorithm::ring): return ring_reduce_cost(shape);
    case detail::pair_of(Collective::reduce, Algorithm::tree): return tree_reduce_cost(shape);
    case detail::pair_of(Collective::reduce, Algorithm::linear): return linear_reduce_cost(shape);
    case detail::pair_of(Collective::reduce, Algorithm::chain): return chain_reduce_cost(shape);
    case detail::pair_of(Collective::broadcast, Algorithm::tree): return tree_broadcast_cost(shape);
    case detail::pair_of(Collective::broadcast, Algorithm::chain): return chain_broadcast_cost(shape);
    case detail::pair_of(Collective::broadcast, Algorithm::linear): return linear_broadcast_cost(shape);
    case detail::pair_of(Collective::scatter, Algorithm::tree): return tree_scatter_cost(shape);
    case detail::pair_of(Collective::scatter, Algorithm::linear): return linear_scatter_cost(shape);
    case detail::pair_of(Collective::gather, Algorithm::tree): return tree_gather_cost(shape);
    case detail::pair_of(Collective::gather, Algorithm::linear): return linear_gather_cost(shape);
    case detail::pair_of(Collective::all_gather, Algorithm::ring): return ring_all_gather_cost(shape);
    case detail::pair_of(Collective::all_gather, Algorithm::bruck): return bruck_all_gather_cost(shape);
    case detail::pair_of(Collective::all_gather, Algorithm::linear): return linear_all_gather_cost(shape);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::ring): return ring_reduce_scatter_cost(shape);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::tree): return tree_reduce_scatter_cost(shape);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::chain): return chain_reduce_scatter_cost(shape);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::linear): return linear_reduce_scatter_cost(shape);
    case detail::pair_of(Collective::all_to_all, Algorithm::pairwise): return pairwise_all_to_all_cost(shape);
    case detail::pair_of(Collective::all_to_all, Algorithm::linear): return linear_all_to_all_cost(shape);
    case detail::pair_of(Collective::barrier, Algorithm::dissemination): return dissemination_barrier_cost(shape);
    case detail::pair_of(Collective::barrier, Algorithm::linear): return linear_barrier_cost(shape);
    case detail::pair_of(Collective::barrier, Algorithm::double_star): return double_star_barrier_cost(shape);
    default: return {};
  }
}

}  // namespace rondo
