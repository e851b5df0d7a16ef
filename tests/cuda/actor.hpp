#pragma once

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"

namespace rondo::testing {

/// What the other process of a test may do, by name: with what the test has given it, as text.
using Handles = std::vector<std::string>;
using ActorActs = std::map<std::string, void (*)(const Handles&)>;

/// Those that make a mistake, by which the stand-in ends them; and those in whose presence another makes one.
const ActorActs& mistakes();

inline constexpr std::size_t kBytes = 2 << 20;

inline void say(const std::string& line) { std::cout << line << std::endl; }

inline std::string hear() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

inline std::string handle_of(const DeviceUnderTest& device, cuda::Address address) {
  const cuda::Current current(device.context);
  cuda::IpcMemoryHandle handle{};
  device.driver().must(device.driver().cuIpcGetMemHandle, &handle, address);
  return to_text(handle);
}

}  // namespace rondo::testing
