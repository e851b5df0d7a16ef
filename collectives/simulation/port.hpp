#pragma once

#include <cstddef>

#include <rondo/port.hpp>

#include "collectives/simulation/network.hpp"

namespace rondo::simulation {

/// One rank of the simulated network. A range is its size, an element is a byte; nothing is stored.
class SimulatedPort {
 public:
  SimulatedPort(Network& network, int rank, int lane) : network_(&network), rank_(rank), lane_(lane) {}

  int rank() const { return rank_; }
  int size() const { return network_->size(); }
  bool in_place() const { return false; }
  Range scratch(std::size_t count) {
    network_->use_scratch(rank_, count);
    return {Buffer::scratch, 0, count};
  }
  SimulatedPort lane(int index) const { return {*network_, rank_, index}; }
  void lane_failed(const std::exception_ptr&) {}

  Send send(const Range& range, int to) {
    return {*network_, rank_, range.count == 0 ? 0 : network_->send(rank_, to, lane_, range.count)};
  }
  Receive recv(const Range& range, int from) { return {*network_, rank_, from, lane_, range.count, false}; }
  Receive recv_reduce(const Range&, const Range& into, int from, Side) {
    return {*network_, rank_, from, lane_, into.count, true};
  }

  void copy(const Range&, const Range&) {}
  void keep(const Range&, const Range&, std::size_t) {}
  void reduce(const Range&, const Range&, const Range& into, Side) { network_->reduce(rank_, into.count); }
  void finish(const Range&) {}

 private:
  Network* network_;
  int rank_;
  int lane_;
};

static_assert(Port<SimulatedPort>);

}  // namespace rondo::simulation
