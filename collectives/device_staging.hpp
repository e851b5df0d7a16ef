#pragma once

#include <cstddef>
#include <memory>

#include <rondo/task.hpp>

#include "collectives/device_memory.hpp"
#include "collectives/device_work.hpp"
#include "collectives/host_memory_port.hpp"

namespace rondo::detail {

/// The way of a collective on devices through the host: what this rank gives is copied to the host first, what it gets
/// is copied to the device last. Every algorithm, transport, element type and operator serves it.
class DeviceStaging {
 public:
  explicit DeviceStaging(const DeviceMemory& memory) : memory_(memory) {}

  /// To be awaited: then `host` is what the collective is to work on.
  Task bring(Operation& operation, HostMemory& host);
  Task take(Operation& operation);
  /// What is queued on the stream from here on comes after the result. False: that is not known yet.
  bool order(RankDevice& device, CudaStream stream) const { return taken_ && device.order(*memory_.got(), stream); }

 private:
  const DeviceMemory& memory_;
  bool taken_ = false;  ///< the copy of the result has been started
};

}  // namespace rondo::detail
