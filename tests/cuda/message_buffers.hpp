#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {

using Buffer = rondo::cuda::buffer<std::byte>;

struct Neighbours {
  explicit Neighbours(const Communicator& world)
      : right((world.rank() + 1) % world.size()), left((world.rank() + world.size() - 1) % world.size()) {}
  int right, left;
};

/// What rank `from` sends in this round.
inline std::vector<std::byte> pattern(int from, int round, std::size_t bytes) {
  constexpr std::size_t kPeriod = std::size_t{1} << 16;
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < std::min(bytes, kPeriod); ++i) {
    made[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(from * 31 + round * 3));
  }
  // What would come again, by what is quick under a sanitizer, too.
  for (std::size_t i = kPeriod; i < bytes; i += kPeriod) {
    std::memcpy(made.data() + i, made.data(), std::min(bytes - i, kPeriod));
  }
  return made;
}

inline void put(const DeviceUnderTest& device, const Buffer& buffer, std::size_t offset,
                const std::vector<std::byte>& bytes) {
  device.write(address_of(buffer) + offset, bytes);
  device.stream.synchronize();
}

inline void check(const DeviceUnderTest& device, const Buffer& buffer, std::size_t offset,
                  const std::vector<std::byte>& wanted, const char* what) {
  require(same_bits(device.content(address_of(buffer) + offset, wanted.size()), wanted), what);
}

/// The stream of rondo's own, on which messages are copied.
inline HeldStream hold_copies(const Communicator& world, const DeviceUnderTest& device) {
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  return {device, engine.device().opened()->copies.stream()};
}

/// Queued on the stream.
inline void overwrite(const DeviceUnderTest& device, const Buffer& buffer) {
  const rondo::cuda::Current current(device.context);
  device.driver().must(device.driver().cuMemsetD8Async, address_of(buffer), static_cast<unsigned char>(0xee),
                       buffer.size(), device.stream.handle());
}

/// A stream that is being captured into a graph, from construction to `end`, by one thread. The graph is whole.
class Capture {
 public:
  Capture(const DeviceUnderTest& device, cuda::StreamHandle stream, cuda::CaptureMode mode)
      : device_(device), stream_(stream) {
    const cuda::Current current(device.context);
    const auto begin = driver_function<cuda::Result(cuda::StreamHandle, cuda::CaptureMode)>("cuStreamBeginCapture_v2");
    require(begin(stream, mode) == cuda::Result::success, "the capture begins");
  }
  void end() const {
    const cuda::Current current(device_.context);
    void* graph = nullptr;
    const auto end = driver_function<cuda::Result(cuda::StreamHandle, void**)>("cuStreamEndCapture");
    require(end(stream_, &graph) == cuda::Result::success, "the graph is whole");
    require(driver_function<cuda::Result(void*)>("cuGraphDestroy")(graph) == cuda::Result::success, "it is destroyed");
  }

 private:
  const DeviceUnderTest& device_;
  const cuda::StreamHandle stream_;
};

}  // namespace rondo::testing
