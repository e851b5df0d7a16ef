#pragma once

#include <stdexcept>

#include <rondo/algorithm/bruck_all_gather.hpp>
#include <rondo/algorithm/chain_all_reduce.hpp>
#include <rondo/algorithm/chain_broadcast.hpp>
#include <rondo/algorithm/chain_reduce.hpp>
#include <rondo/algorithm/chain_reduce_scatter.hpp>
#include <rondo/algorithm/dissemination_barrier.hpp>
#include <rondo/algorithm/double_star_all_reduce.hpp>
#include <rondo/algorithm/double_star_barrier.hpp>
#include <rondo/algorithm/linear_all_gather.hpp>
#include <rondo/algorithm/linear_all_reduce.hpp>
#include <rondo/algorithm/linear_all_to_all.hpp>
#include <rondo/algorithm/linear_barrier.hpp>
#include <rondo/algorithm/linear_broadcast.hpp>
#include <rondo/algorithm/linear_gather.hpp>
#include <rondo/algorithm/linear_reduce.hpp>
#include <rondo/algorithm/linear_reduce_scatter.hpp>
#include <rondo/algorithm/linear_scatter.hpp>
#include <rondo/algorithm/pairwise_all_to_all.hpp>
#include <rondo/algorithm/recursive_doubling_all_reduce.hpp>
#include <rondo/algorithm/ring_all_gather.hpp>
#include <rondo/algorithm/ring_all_reduce.hpp>
#include <rondo/algorithm/ring_reduce.hpp>
#include <rondo/algorithm/ring_reduce_scatter.hpp>
#include <rondo/algorithm/tree_all_reduce.hpp>
#include <rondo/algorithm/tree_broadcast.hpp>
#include <rondo/algorithm/tree_gather.hpp>
#include <rondo/algorithm/tree_reduce.hpp>
#include <rondo/algorithm/tree_reduce_scatter.hpp>
#include <rondo/algorithm/tree_scatter.hpp>
#include <rondo/algorithms.hpp>

namespace rondo {

namespace detail {

/// A world of one: what is to be had is there already.
template <Port P>
Task run_alone(P& port, const Plan& plan) {
  const Range output = plan.blocks.whole(Buffer::output);
  const bool moves = plan.collective != Collective::broadcast && plan.collective != Collective::barrier;
  if (moves && !port.in_place()) port.copy(plan.blocks.whole(Buffer::input), output);
  if (reduces(plan.collective)) port.finish(output);
  co_return;
}

constexpr std::uint16_t pair_of(Collective collective, Algorithm algorithm) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(collective) << 8U | static_cast<unsigned>(algorithm));
}

}  // namespace detail

/// The collective of `plan` on `port`, ready to start. The plan and the port must outlive the task. Throws
/// std::invalid_argument for a pair of collective and algorithm that `is_valid` refuses.
template <Port P>
Task run_collective(P& port, const Plan& plan) {
  if (port.size() == 1) return detail::run_alone(port, plan);
  switch (detail::pair_of(plan.collective, plan.algorithm)) {
    case detail::pair_of(Collective::all_reduce, Algorithm::ring): return ring_all_reduce(port, plan);
    case detail::pair_of(Collective::all_reduce, Algorithm::tree): return tree_all_reduce(port, plan);
    case detail::pair_of(Collective::all_reduce, Algorithm::recursive_doubling):
      return recursive_doubling_all_reduce(port, plan);
    case detail::pair_of(Collective::all_reduce, Algorithm::linear): return linear_all_reduce(port, plan);
    case detail::pair_of(Collective::all_reduce, Algorithm::double_star): return double_star_all_reduce(port, plan);
    case detail::pair_of(Collective::all_reduce, Algorithm::chain): return chain_all_reduce(port, plan);
    case detail::pair_of(Collective::reduce, Algorithm::ring): return ring_reduce(port, plan);
    case detail::pair_of(Collective::reduce, Algorithm::tree): return tree_reduce(port, plan);
    case detail::pair_of(Collective::reduce, Algorithm::linear): return linear_reduce(port, plan);
    case detail::pair_of(Collective::reduce, Algorithm::chain): return chain_reduce(port, plan);
    case detail::pair_of(Collective::broadcast, Algorithm::tree): return tree_broadcast(port, plan);
    case detail::pair_of(Collective::broadcast, Algorithm::chain): return chain_broadcast(port, plan);
    case detail::pair_of(Collective::broadcast, Algorithm::linear): return linear_broadcast(port, plan);
    case detail::pair_of(Collective::scatter, Algorithm::tree): return tree_scatter(port, plan);
    case detail::pair_of(Collective::scatter, Algorithm::linear): return linear_scatter(port, plan);
    case detail::pair_of(Collective::gather, Algorithm::tree): return tree_gather(port, plan);
    case detail::pair_of(Collective::gather, Algorithm::linear): return linear_gather(port, plan);
    case detail::pair_of(Collective::all_gather, Algorithm::ring): return ring_all_gather(port, plan);
    case detail::pair_of(Collective::all_gather, Algorithm::bruck): return bruck_all_gather(port, plan);
    case detail::pair_of(Collective::all_gather, Algorithm::linear): return linear_all_gather(port, plan);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::ring): return ring_reduce_scatter(port, plan);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::tree): return tree_reduce_scatter(port, plan);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::chain): return chain_reduce_scatter(port, plan);
    case detail::pair_of(Collective::reduce_scatter, Algorithm::linear): return linear_reduce_scatter(port, plan);
    case detail::pair_of(Collective::all_to_all, Algorithm::pairwise): return pairwise_all_to_all(port, plan);
    case detail::pair_of(Collective::all_to_all, Algorithm::linear): return linear_all_to_all(port, plan);
    case detail::pair_of(Collective::barrier, Algorithm::dissemination): return dissemination_barrier(port, plan);
    case detail::pair_of(Collective::barrier, Algorithm::linear): return linear_barrier(port, plan);
    case detail::pair_of(Collective::barrier, Algorithm::double_star): return double_star_barrier(port, plan);
    default: throw std::invalid_argument("run_collective: no such algorithm of this collective");
  }
}

}  // namespace rondo
