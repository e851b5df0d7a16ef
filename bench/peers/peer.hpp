#pragma once

#include <sys/prctl.h>

#include <csignal>
#include <functional>
#include <memory>
#include <utility>

#include "bench/buffers.hpp"
#include "bench/point_to_point.hpp"

namespace rondo::bench {

/// A collective of another library on floats, out of place, with sum and root 0. `make_call(buffers)` gives what one
/// iteration calls.
class PeerExercise final : public Exercise {
 public:
  using Call = std::function<void()>;

  template <typename MakeCall>
  PeerExercise(const Settings& settings, const Fabric& fabric, const Shape& shape, MakeCall&& make_call)
      : buffers_(settings, fabric.rank(), fabric.size(), shape), call_(make_call(buffers_)) {}

  void prepare(Contents contents) override { buffers_.prepare(contents); }
  void run() override { call_(); }
  std::size_t wrong() const override { return buffers_.wrong(); }

 private:
  Buffers<float> buffers_;
  Call call_;
};

/// Latency and bandwidth over `wire`, anything else out of `make_call(buffers)`.
template <typename W, typename MakeCall>
std::unique_ptr<Exercise> peer_exercise(W wire, const Fabric& fabric, const Settings& settings, const Shape& shape,
                                        MakeCall&& make_call) {
  if (facts(settings.operation).point_to_point())
    return point_to_point_exercise<float>(std::move(wire), fabric.rank(), settings, shape);
  return std::make_unique<PeerExercise>(settings, fabric, shape, std::forward<MakeCall>(make_call));
}

/// Whoever ends the launcher by force ends this process too.
inline void end_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

}  // namespace rondo::bench
