// Every collective on a small tensor, printed.
//
//     rondo-run -n 4 collectives

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "in_rank_order.hpp"

namespace {

using Tensor = std::vector<int>;

std::string to_text(const Tensor& tensor) {
  std::string text;
  for (const int value : tensor) text += fmt::format("{:4}", value);
  return text.empty() ? "   -" : text;
}

/// A table with a line for each rank: what it gave and what it got.
void show(rondo::Communicator& world, const char* title, const Tensor& before, const Tensor& after) {
  const std::string heading = world.rank() == 0 ? fmt::format("{}\n", title) : "";
  print_in_rank_order(world,
                      fmt::format("{}  rank {}: {}  ->{}\n", heading, world.rank(), to_text(before), to_text(after)));
}

/// What this rank brings along: rank 2's numbers are 20, 21, 22, ...
Tensor numbers(int rank, std::size_t count) {
  Tensor tensor(count);
  std::iota(tensor.begin(), tensor.end(), 10 * rank);
  return tensor;
}

void reductions(rondo::Communicator& world) {
  const auto size = static_cast<std::size_t>(world.size());
  const Tensor pair = numbers(world.rank(), 2);

  Tensor result = pair;  // in place: the result takes the place of the input
  rondo::all_reduce(world, std::span(result), rondo::sum);
  show(world, "all_reduce, sum: every rank gets the sum", pair, result);

  rondo::all_reduce(world, std::span(pair), std::span(result), [](int a, int b) { return a > b ? a : b; });
  show(world, "all_reduce, with an operator of your own, the larger of two", pair, result);

  Tensor at_root(world.rank() == 0 ? pair.size() : 0);
  rondo::reduce(world, std::span(pair), std::span(at_root), rondo::sum, 0);
  show(world, "reduce, sum, root 0: rank 0 gets the sum", pair, at_root);

  const Tensor one_for_each = numbers(world.rank(), size);
  Tensor block(1);
  rondo::reduce_scatter(world, std::span(one_for_each), std::span(block), rondo::sum);
  show(world, "reduce_scatter, sum: each rank gets one block of the sum", one_for_each, block);
}

void from_and_to_one(rondo::Communicator& world) {
  const bool root = world.rank() == 0;
  const auto size = static_cast<std::size_t>(world.size());

  const Tensor own = numbers(world.rank(), 2);
  Tensor data = own;
  rondo::broadcast(world, std::span(data), 0);
  show(world, "broadcast, root 0: every rank gets what rank 0 has", own, data);

  const Tensor blocks = root ? numbers(0, size) : Tensor{};
  Tensor block(1);
  rondo::scatter(world, std::span(blocks), std::span(block), 0);
  show(world, "scatter, root 0: each rank gets one block", blocks, block);

  const Tensor one = numbers(world.rank(), 1);
  Tensor all(root ? size : 0);
  rondo::gather(world, std::span(one), std::span(all), 0);
  show(world, "gather, root 0: rank 0 gets every rank's block", one, all);
}

void from_all_to_all(rondo::Communicator& world) {
  const auto size = static_cast<std::size_t>(world.size());

  const Tensor one = numbers(world.rank(), 1);
  Tensor all(size);
  rondo::all_gather(world, std::span(one), std::span(all));
  show(world, "all_gather: every rank gets every rank's block", one, all);

  // Blocks of different lengths: rank r brings r + 1 numbers.
  std::vector<std::size_t> counts(size);
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  const Tensor some = numbers(world.rank(), counts[static_cast<std::size_t>(world.rank())]);
  Tensor together(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  rondo::all_gather(world, std::span(some), std::span(together), counts);
  show(world, "all_gather with counts: blocks of different lengths", some, together);

  const Tensor out = numbers(world.rank(), size);
  Tensor in(size);
  rondo::all_to_all(world, std::span(out), std::span(in));
  show(world, "all_to_all: block i of rank j becomes block j of rank i", out, in);
}

}  // namespace

int main() {
  auto world = rondo::init();
  reductions(world);
  from_and_to_one(world);
  from_all_to_all(world);

  // Every collective has an asynchronous form, which returns a Work: compute, then wait.
  auto everybody_is_here = rondo::ibarrier(world);
  everybody_is_here.wait();
  if (world.rank() == 0) fmt::print("barrier: all {} ranks are here\n", world.size());
}
