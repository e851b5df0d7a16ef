#pragma once

#include <cstdint>
#include <string>

#include "bench/probe/device_work.hpp"

namespace rondo::bench {

/// How a process of a chain comes after the one before it.
class ChainLink {
 public:
  ChainLink() = default;
  ChainLink(const ChainLink&) = delete;
  ChainLink& operator=(const ChainLink&) = delete;
  virtual ~ChainLink() = default;

  /// What is queued from here on comes after the `count`th kernel of the process before, which has been told of.
  virtual void await(std::uint64_t count) = 0;
  /// This process has queued its `count`th kernel.
  virtual void tell(std::uint64_t count) = 0;
};

/// A chain of small kernels that goes round through all processes: each begins when the one before it has ended, in the
/// process before. What a step takes is what it costs to give the device to the next process, and to tell it.
class Chain {
 public:
  Chain(const Part& part, const Kernels& kernels, ChainLink& link) : part_(part), kernels_(kernels), link_(link) {}

  /// This process's part in a chain that goes round so many times. Nobody waits for what is not queued yet, so what is
  /// queued always comes to its end.
  void go(int rounds);
  /// So many kernels has the last process queued.
  std::uint64_t queued_by_last() const;

 private:
  const Part& part_;
  const Kernels& kernels_;
  ChainLink& link_;
};

/// What a step takes by the device's clock, all of the chain being queued before it begins: rank 0 reports it.
void measure_held(const Part& part, const Kernels& kernels, Chain& chain, const std::string& what);

}  // namespace rondo::bench
