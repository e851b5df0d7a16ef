#include "cuda/device.hpp"

namespace rondo::cuda {

std::vector<DeviceFacts> devices(const Driver& driver) {
  constexpr int kNameBytes = 256;
  int count = 0;
  driver.must(driver.cuDeviceGetCount, &count);
  std::vector<DeviceFacts> found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceFacts facts;
    char name[kNameBytes] = {};
    driver.must(driver.cuDeviceGet, &facts.device, ordinal);
    driver.must(driver.cuDeviceGetUuid, &facts.uuid, facts.device);
    driver.must(driver.cuDeviceGetName, &name[0], kNameBytes, facts.device);
    driver.must(driver.cuDeviceGetAttribute, &facts.multiprocessors, DeviceAttribute::multiprocessor_count,
                facts.device);
    facts.name = name;
    found.push_back(facts);
  }
  return found;
}

std::optional<Device> find_device(const Driver& driver, const Uuid& uuid) {
  for (const DeviceFacts& facts : devices(driver)) {
    if (facts.uuid == uuid) return facts.device;
  }
  return std::nullopt;
}

bool reaches(const Driver& driver, Device from, Device to) {
  if (from == to) return true;
  int can = 0;
  driver.must(driver.cuDeviceCanAccessPeer, &can, from, to);
  return can != 0;
}

bool reads_well(const Driver& driver, Device from, Device to) {
  if (from == to) return true;
  int atomics = 0;
  driver.must(driver.cuDeviceGetP2PAttribute, &atomics, PeerAttribute::native_atomics, from, to);
  return atomics != 0;
}

}  // namespace rondo::cuda
