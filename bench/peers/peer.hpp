#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/pattern.hpp"
#include "bench/point_to_point.hpp"
#include "bench/session.hpp"

namespace rondo::bench {

/// all_reduce of floats with sum, out of place; `Call` is what one iteration calls.
template <typename Call>
class SumExercise final : public Exercise {
 public:
  template <typename MakeCall>
  SumExercise(int rank, int ranks, std::size_t count, MakeCall&& make_call)
      : rank_(rank), ranks_(ranks), in_(count), out_(count), call_(make_call(std::span(in_), std::span(out_))) {}

  void prepare(Contents) override {
    fill(std::span(in_), values_of_rank<float>(ReduceKind::sum, rank_, ranks_));
    clear(std::span(out_));
  }
  void run() override { call_(); }
  std::size_t wrong() const override {
    return count_wrong(std::span(out_), combined_values<float>(ReduceKind::sum, ranks_),
                       tolerance<float>(ReduceKind::sum, ranks_));
  }

 private:
  int rank_;
  int ranks_;
  std::vector<float> in_;
  std::vector<float> out_;
  Call call_;
};

/// Throws UsageError unless the loops on other libraries can measure this: latency, bandwidth, and all_reduce of
/// floats with sum, out of place.
inline void check_peer_settings(const Settings& settings, const std::string& library) {
  const bool known = facts(settings.operation).point_to_point() || settings.operation == Operation::all_reduce;
  const bool plain = settings.type == ElementType::float32 && settings.reduce == ReduceKind::sum &&
                     !settings.in_place && settings.algorithm == Algorithm::automatic;
  if (!known || !plain)
    throw UsageError(
        fmt::format("the loop on {} measures latency, bandwidth, and all_reduce of float with sum", library));
}

/// `make_call(in, out)` gives a callable that sums `in` over all ranks into `out`.
template <typename W, typename MakeCall>
Subject peer_subject(std::string library, std::string transport, W wire, const Fabric& fabric, const Settings& settings,
                     MakeCall make_call) {
  const auto exercise = [wire, &fabric, &settings, make_call](const Shape& shape) -> std::unique_ptr<Exercise> {
    using Floats = std::span<float>;
    switch (settings.operation) {
      case Operation::latency: return std::make_unique<PingPong<float, W>>(wire, fabric.rank(), shape.count);
      case Operation::bandwidth:
        return std::make_unique<Stream<float, W>>(wire, fabric.rank(), shape.count, window_for(settings, shape.bytes));
      default:
        return std::make_unique<SumExercise<decltype(make_call(Floats(), Floats()))>>(fabric.rank(), fabric.size(),
                                                                                      shape.count, make_call);
    }
  };
  return {std::move(library), std::move(transport), [](const Shape&) { return std::string("default"); }, exercise};
}

}  // namespace rondo::bench
