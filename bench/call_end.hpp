#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>
#include <rondo/work.hpp>

#include "cuda/context.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"

namespace rondo::bench {

/// The stream of calls on memory of devices, and when they return: when the device is done with them, or, while
/// `enqueuing`, as soon as the caller's thread may go on.
class CallEnd {
 public:
  /// A stream of its own, which does not wait for the default one, or that. Throws rondo::Error, cuda::CudaError.
  CallEnd(Communicator& communicator, bool on_default_stream) {
    const cuda::buffer<std::byte> opens_the_device(communicator, 1);
    context_ = &CommunicatorAccess::engine(communicator)->device().opened()->context;
    if (!on_default_stream) own_.emplace(*context_);
  }

  CudaStream stream() const noexcept { return own_ ? own_->handle() : nullptr; }

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
      work.wait_on(stream());
    else
      work.wait();
  }
  /// Until the device has done what is in the stream.
  void settle() const {
    const cuda::Current current(*context_);
    const cuda::Driver& driver = context_->driver();
    driver.must(driver.cuStreamSynchronize, static_cast<cuda::StreamHandle>(stream()));
  }

  /// Since the last time that this was asked.
  double take_seconds_of_calls() const { return std::exchange(calling_, {}).count(); }

  bool enqueuing = false;

 private:
  using Clock = std::chrono::steady_clock;

  const cuda::PrimaryContext* context_ = nullptr;
  std::optional<cuda::Stream> own_;
  mutable std::chrono::duration<double> calling_{};
};

}  // namespace rondo::bench
