#include "cuda/pointer.hpp"

#include <iterator>

#include "cuda/context.hpp"

namespace rondo::cuda {

PointerFacts classify(const Driver& driver, Address address) {
  // Of truths the driver writes one byte or four, so these begin as zeros of four.
  unsigned memory_type = 0;
  unsigned managed = 0;
  unsigned legacy_ipc = 0;
  int device = -1;
  void* pool = nullptr;
  unsigned long long buffer_id = 0;
  Address base = 0;
  std::size_t bytes = 0;
  PointerAttribute attributes[] = {
      PointerAttribute::memory_type,    PointerAttribute::is_managed,
      PointerAttribute::device_ordinal, PointerAttribute::buffer_id,
      PointerAttribute::range_start,    PointerAttribute::range_bytes,
      PointerAttribute::memory_pool,    PointerAttribute::is_legacy_ipc_capable,
  };
  void* values[] = {&memory_type, &managed, &device, &buffer_id, &base, &bytes, &pool, &legacy_ipc};
  static_assert(std::size(attributes) == std::size(values));
  driver.must(driver.cuPointerGetAttributes, static_cast<unsigned>(std::size(attributes)), &attributes[0], &values[0],
              address);

  PointerFacts facts;
  if (managed != 0) {
    facts.kind = PointerFacts::Kind::managed;
    facts.device = device;
    facts.buffer_id = buffer_id;
    return facts;
  }
  if (memory_type != kMemoryTypeDevice) return facts;
  facts.kind = PointerFacts::Kind::device;
  facts.device = device;
  facts.base = base;
  facts.bytes = bytes;
  facts.buffer_id = buffer_id;
  facts.exportable = legacy_ipc != 0;
  if (!facts.exportable) {
    facts.why_not = pool != nullptr ? "it is of a memory pool (cuMemAllocAsync), wanted memory of cuMemAlloc"
                                    : "it was not allocated by cuMemAlloc (cuMemCreate, perhaps)";
  }
  return facts;
}

PointerFacts classify_anywhere(const Driver& driver, Address address) {
  ContextHandle users = nullptr;
  driver.must(driver.cuCtxGetCurrent, &users);
  if (users != nullptr) return classify(driver, address);
  int devices = 0;
  driver.must(driver.cuDeviceGetCount, &devices);
  for (Device device = 0; device < devices; ++device) {
    unsigned flags = 0;
    int active = 0;
    driver.must(driver.cuDevicePrimaryCtxGetState, device, &flags, &active);
    if (active == 0) continue;
    const PrimaryContext context(driver, device);
    const Current current(context);
    return classify(driver, address);
  }
  return {};
}

}  // namespace rondo::cuda
