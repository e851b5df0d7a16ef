#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/collective_buffers.hpp"
#include "tests/cuda/device_under_test.hpp"

namespace rondo::testing {

/// Every collective, on the host and on the device: the same bits.
template <typename T, typename Op>
void each_collective(Communicator& world, Op op, std::size_t count) {
  const DeviceUnderTest device(own_device(world));
  const int rank = world.rank();
  const auto ranks = static_cast<std::size_t>(world.size());
  const int root = world.size() - 1;
  const auto made = [&](std::size_t elements, int first = 0) { return Both<T>(world, device, elements, rank + first); };
  auto all = made(count * ranks), all_of = made(count * ranks, 3), part = made(count, 1), part_of = made(count, 2);

  // What is combined twice in place, or not written, shows.
  int filled = 0;
  const auto on_both = [&](const char* name, Both<T>& out, const auto& call) {
    out.fill(rank + ++filled);
    call(std::true_type{});
    call(std::false_type{});
    out.check(name);
  };
  const auto pick = [](auto on_device, Both<T>& both) {
    if constexpr (on_device) {
      return both.device();
    } else {
      return both.host();
    }
  };
  on_both("all_reduce", all_of, [&](auto d) { all_reduce(world, pick(d, all), pick(d, all_of), op); });
  on_both("all_reduce in place", all_of, [&](auto d) { all_reduce(world, pick(d, all_of), op); });
  on_both("all_reduce of one buffer given twice", all_of,
          [&](auto d) { all_reduce(world, pick(d, all_of), pick(d, all_of), op); });
  on_both("reduce in place", all_of, [&](auto d) { reduce(world, pick(d, all_of), op, root); });
  on_both("reduce", all_of, [&](auto d) { reduce(world, pick(d, all), pick(d, all_of), op, root); });
  on_both("all_reduce that is waited for", all_of, [&](auto d) { iall_reduce(world, pick(d, all_of), op).wait(); });
  on_both("reduce_scatter", part_of, [&](auto d) { reduce_scatter(world, pick(d, all), pick(d, part_of), op); });
  on_both("broadcast", part, [&](auto d) { broadcast(world, pick(d, part), root); });
  on_both("gather", all_of, [&](auto d) { gather(world, pick(d, part_of), pick(d, all_of), root); });
  on_both("all_gather", all_of, [&](auto d) { all_gather(world, pick(d, part_of), pick(d, all_of)); });
  on_both("all_gather in place", all, [&](auto d) { all_gather(world, pick(d, all)); });
  on_both("scatter", part_of, [&](auto d) { scatter(world, pick(d, all), pick(d, part_of), root); });
  on_both("all_to_all", all_of, [&](auto d) { all_to_all(world, pick(d, all), pick(d, all_of)); });
  on_both("all_to_all in place", all_of, [&](auto d) { all_to_all(world, pick(d, all_of)); });
  std::vector<std::size_t> counts(ranks, count);
  on_both("all_gather by counts", all_of,
          [&](auto d) { all_gather(world, pick(d, part), pick(d, all_of), std::span<const std::size_t>(counts)); });
  on_both("the own block of the output given as input", all, [&](auto d) {
    const auto whole = pick(d, all);
    all_gather(world, whole.subspan(static_cast<std::size_t>(rank) * count, count), whole);
  });
  // That of the first rank begins where the input does.
  on_both("the own block of the input given as output", all, [&](auto d) {
    const auto whole = pick(d, all);
    reduce_scatter(world, whole, whole.subspan(static_cast<std::size_t>(rank) * count, count), op);
  });
  on_both("the root's block of the output given as its input", all, [&](auto d) {
    const auto whole = pick(d, all);
    gather(world, rank == 0 ? whole.subspan(0, count) : pick(d, part_of), whole, 0);
  });
  on_both("the root's block of the input given as its output", all, [&](auto d) {
    const auto whole = pick(d, all);
    scatter(world, whole, rank == 0 ? whole.subspan(0, count) : pick(d, part_of), 0);
  });
}

}  // namespace rondo::testing
