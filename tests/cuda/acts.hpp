#pragma once

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include <rondo/communicator.hpp>
#include <rondo/device_span.hpp>
#include <rondo/init.hpp>

#include "tests/cuda/device_under_test.hpp"

namespace rondo::testing {

/// What a rank may do, by name.
using Acts = std::map<std::string, std::function<void(Communicator&)>>;

/// The main of a rank that does one act. 0: all was as it must be, else it says what was not.
inline int run_act(int argc, char** argv, const Acts& acts) {
  const auto act = argc == 2 ? acts.find(argv[1]) : acts.end();
  if (act == acts.end()) return 2;
  // Of a job that failed: they would have no time to say what they saw.
  std::signal(SIGTERM, SIG_IGN);
  try {
    Communicator world = init();
    act->second(world);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}

/// The device whose memory a rank gets by `cuda::buffer`.
inline cuda::Device own_device(const Communicator& world) {
  int count = 0;
  const cuda::Driver& driver = driver_under_test();
  driver.must(driver.cuDeviceGetCount, &count);
  return world.rank() % count;
}

inline CudaStream stream_of(const DeviceUnderTest& device) { return device.stream.handle(); }

}  // namespace rondo::testing
