// Compiled alone, warnings being errors: an operator that only throws is the user's good right.
#include <span>
#include <stdexcept>

#include <rondo/rondo.hpp>

void reduce_by_throwing(rondo::Communicator& world, std::span<int> data);

void reduce_by_throwing(rondo::Communicator& world, std::span<int> data) {
  rondo::all_reduce(world, data, [](int, int) -> int { throw std::runtime_error("no sum today"); });
}
