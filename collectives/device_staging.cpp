#include "collectives/device_staging.hpp"

#include <span>

#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

bool contains(const DeviceBuffer& buffer, cuda::Address address, std::size_t bytes) {
  return address >= buffer.address && address - buffer.address + bytes <= buffer.bytes;
}

/// Where an address of the device's is on the host meanwhile.
std::byte* host(const DeviceMemory::Buffer& buffer, cuda::Address address) {
  if (!buffer || !contains(*buffer, address, 0)) return nullptr;
  return buffer->staging->data() + (address - buffer->address);
}

}  // namespace

Task DeviceStaging::bring(Operation& operation, HostMemory& host_memory) {
  RankDevice& device = operation.group().engine().device();
  const auto& given = memory_.given();
  const auto& got = memory_.got();
  const bool within = got && (!given || contains(*got, given->address, given->bytes));
  const DeviceMemory::Buffer in = within ? got : given;
  if (got) got->staging = device.stage(got->bytes);
  if (in && in != got) in->staging = device.stage(in->bytes);
  host_memory.set(host(in, memory_.input()), host(got ? got : in, memory_.output()));
  if (!given) co_return;
  const auto copied = std::make_shared<DeviceEvent>();
  device.read(given, std::span(host(in, given->address), given->bytes), -1, DeviceEvent::ended(copied, in));
  Task waited = over(operation, copied);
  co_await waited;
}

Task DeviceStaging::take(Operation& operation) {
  const auto& got = memory_.got();
  if (!got) co_return;
  const auto copied = std::make_shared<DeviceEvent>();
  operation.group().engine().device().write(got, std::span(got->staging->data(), got->bytes), -1,
                                            DeviceEvent::ended(copied, got));
  taken_ = true;
  Task waited = over(operation, copied);
  co_await waited;
}

}  // namespace rondo::detail
