// Groups: communicators of some of the ranks. Inside a group its members are numbered from 0.
//
//     rondo-run -n 4 groups

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "in_rank_order.hpp"

int main() {
  auto world = rondo::init();
  if (world.size() < 2) {
    fmt::print(stderr, "groups: got 1 rank, wanted 2 or more: rondo-run -n 4 groups\n");
    return 1;
  }
  std::string text = fmt::format("rank {} of {}\n", world.rank(), world.size());

  // torch.distributed's new_group: every rank of the world makes the call, those in the list become members.
  // The others get a handle that can do nothing.
  auto pair = world.subgroup({0, 1});
  if (pair) {
    std::vector<int> tensor{1};
    rondo::all_reduce(pair, std::span(tensor), rondo::sum);
    text +=
        fmt::format("  the pair: rank {} of {}, all_reduce of ones gives {}\n", pair.rank(), pair.size(), tensor[0]);
  } else {
    text += "  the pair: not a member\n";
  }

  // Who gives the same colour comes into the same group; the key orders its members: here the highest rank
  // comes first.
  auto half = world.split(world.rank() % 2, -world.rank());
  std::vector<int> members(static_cast<std::size_t>(half.size()));
  const std::vector<int> me{world.rank()};
  rondo::all_gather(half, std::span(me), std::span(members));
  text += fmt::format("  {} ranks: rank {} of {}, the first one is world rank {}\n",
                      world.rank() % 2 == 0 ? "even" : "odd", half.rank(), half.size(), members[0]);

  // The same ranks again, but messages of one never meet those of the other. A library that communicates on
  // its own takes a `dup`, so that it cannot disturb its caller.
  auto library = world.dup();
  std::vector<int> largest{world.rank()};
  auto work = rondo::iall_reduce(library, std::span(largest), rondo::max);
  rondo::barrier(world);
  work.wait();
  text += fmt::format("  the library: the highest of {} ranks is {}\n", library.size(), largest[0]);

  print_in_rank_order(world, text);
}
