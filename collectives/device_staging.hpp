#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>

#include <rondo/collective_call.hpp>
#include <rondo/task.hpp>

#include "runtime/operation.hpp"
#include "runtime/rank_device.hpp"

namespace rondo::detail {

/// A collective on memory of devices that is done on the host: what this rank gives is copied to the host first, what
/// it gets is copied to the device last. Every algorithm, transport, element type and operator serves it.
class DeviceStaging {
 public:
  /// Makes the call one on the host's memory. Throws the caller's mistakes. Under the engine's lock.
  DeviceStaging(Group& group, CollectiveCall& call);
  /// What has not been queued on the device by then never is.
  ~DeviceStaging();
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  Task bring(Operation& operation);
  Task take(Operation& operation);
  /// What is queued on the stream from here on comes after the result. False: that is not known yet.
  bool order(CudaStream stream) const;

 private:
  /// One of the caller's buffers, with the host's copy of it in its staging memory; nothing where there are no bytes.
  using Buffer = std::shared_ptr<DeviceBuffer>;
  /// A copy on its way.
  struct Copy {
    bool over = false;
    std::exception_ptr failure;
  };

  Buffer buffer(const void* data, std::size_t count, CudaStream stream, const CollectiveCall& call);
  static RankDevice::Ended end_of(const std::shared_ptr<Copy>& copy, const Buffer& buffer);
  static Task wait(Operation& operation, std::shared_ptr<Copy> copy);

  RankDevice& device_;
  Buffer given_, got_;  ///< one and the same in place
  bool taken_ = false;  ///< the copy of the result has been started
};

}  // namespace rondo::detail
