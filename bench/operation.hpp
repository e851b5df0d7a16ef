#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <rondo/call.hpp>

namespace rondo::bench {

enum class Operation {
  latency,    ///< ping-pong between ranks 0 and 1; the time is one way, half a round trip
  bandwidth,  ///< a stream of messages from rank 0 to rank 1, a window of them in flight; the time is of one message
  all_reduce,
  reduce,
  broadcast,
  scatter,
  gather,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier,
};

struct OperationFacts {
  Operation operation;
  std::string_view name;
  Collective collective;  ///< `none`: point to point
  bool reduces;
  bool rooted;
  bool in_place;      ///< has a form with input and output in one buffer
  bool in_blocks;     ///< `bytes` are those of all ranks' blocks together, `count` is of one block
  bool synchronises;  ///< no rank can finish before every rank has begun

  bool point_to_point() const { return collective == Collective::none; }
};

const OperationFacts& facts(Operation operation);
std::optional<Operation> parse_operation(std::string_view text);
/// "latency, bandwidth, all_reduce, ...": for error and help texts.
std::string known_operations();

/// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it: the share of the bytes that the busiest link
/// has to carry, so that figures for different operations and rank counts compare with the speed of that link.
double bus_factor(Operation operation, int ranks);

/// Bytes that all ranks together read and write at the least in one call, over `Shape::bytes`: each input is read once,
/// each output written once. In place the same is counted.
double memory_factor(Operation operation, int ranks);

/// The amount of data of one call, as nccl-tests counts it: `bytes` is the larger of a rank's input and output,
/// `count` the elements of one block (of the whole buffer where there are no blocks).
struct Shape {
  std::size_t count = 0;
  std::size_t bytes = 0;

  friend bool operator==(const Shape&, const Shape&) = default;
};

/// Rounds down to whole elements in every block, but to no less than one, unless nothing was asked for.
Shape shape_of(Operation operation, std::size_t bytes, std::size_t element_bytes, int ranks);

}  // namespace rondo::bench
