#pragma once

#include <cstddef>
#include <vector>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {

using Buffer = rondo::cuda::buffer<std::byte>;

struct Neighbours {
  explicit Neighbours(const Communicator& world)
      : right((world.rank() + 1) % world.size()), left((world.rank() + world.size() - 1) % world.size()) {}
  int right, left;
};

/// What rank `from` sends in this round.
inline std::vector<std::byte> pattern(int from, int round, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(from * 31 + round * 3));
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
  require(device.content(address_of(buffer) + offset, wanted.size()) == wanted, what);
}

/// Queued on the stream.
inline void overwrite(const DeviceUnderTest& device, const Buffer& buffer) {
  const rondo::cuda::Current current(device.context);
  device.driver().must(device.driver().cuMemsetD8Async, address_of(buffer), static_cast<unsigned char>(0xee),
                       buffer.size(), device.stream.handle());
}

}  // namespace rondo::testing
