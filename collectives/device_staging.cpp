#include "collectives/device_staging.hpp"

#include <span>

#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

bool contains(const DeviceBuffer& buffer, cuda::Address address) {
  return address >= buffer.address && address - buffer.address < buffer.bytes;
}

}  // namespace

std::byte* DeviceStaging::host(cuda::Address address) const noexcept {
  for (const auto& buffer : {memory_.got(), memory_.given()}) {
    if (buffer && contains(*buffer, address)) return buffer->staging->data() + (address - buffer->address);
  }
  return nullptr;
}

Task DeviceStaging::bring(Operation& operation, HostMemory& host_memory) {
  RankDevice& device = operation.group().engine().device();
  const auto& given = memory_.given();
  const auto& got = memory_.got();
  if (got) got->staging = device.stage(got->bytes);
  if (given && !(got && contains(*got, given->address))) given->staging = device.stage(given->bytes);
  host_memory.set(host(memory_.input()), host(memory_.output()));
  if (!given) co_return;
  const auto copied = std::make_shared<DeviceEvent>();
  device.read(given, std::span(host(given->address), given->bytes), -1, DeviceEvent::ended(copied, given));
  Task waited = over(operation, copied);
  co_await waited;
}

Task DeviceStaging::take(Operation& operation) {
  const auto& got = memory_.got();
  if (!got) co_return;
  const auto copied = std::make_shared<DeviceEvent>();
  operation.group().engine().device().write(got, std::span(host(got->address), got->bytes), -1,
                                            DeviceEvent::ended(copied, got));
  taken_ = true;
  Task waited = over(operation, copied);
  co_await waited;
}

}  // namespace rondo::detail
