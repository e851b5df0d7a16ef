#pragma once

#include <chrono>
#include <utility>

#include <rondo/communicator.hpp>
#include <rondo/work.hpp>

#include "cuda/context.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"

namespace rondo::bench {

/// When calls on memory of devices return, which is on the default stream: when the device is done with them, or, while
/// `enqueuing`, as soon as the caller's thread may go on.
class CallEnd {
 public:
  explicit CallEnd(Communicator& communicator) : communicator_(communicator) {}

  /// What `start` returns, which is a Work. Counts how long that took.
  template <typename Start>
  Work begin(const Start& start) const {
    const auto before = Clock::now();
    Work work = start();
    calling_ += Clock::now() - before;
    return work;
  }
  void finish(Work work) const {
    if (enqueuing)
      work.wait_on(nullptr);
    else
      work.wait();
  }
  /// Until the device has done what is in the stream.
  void settle() const {
    const auto* const device = CommunicatorAccess::engine(communicator_)->device().opened();
    if (device == nullptr) return;  // nothing has been given it
    const cuda::PrimaryContext& context = device->context;
    const cuda::Current current(context);
    context.driver().must(context.driver().cuStreamSynchronize, nullptr);
  }

  /// Since the last time that this was asked.
  double take_seconds_of_calls() const { return std::exchange(calling_, {}).count(); }

  bool enqueuing = false;

 private:
  using Clock = std::chrono::steady_clock;

  Communicator& communicator_;
  mutable std::chrono::duration<double> calling_{};
};

}  // namespace rondo::bench
