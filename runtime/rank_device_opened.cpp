// What there is once a rank has a device.

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cuda/kernels/kernel_image.hpp"
#include "runtime/rank_device.hpp"

namespace rondo::detail {
namespace {

/// Without any where the driver has none for several processes, as on some machines and in some containers.
cuda::EventPool make_events(const cuda::PrimaryContext& context, std::string& why_none) {
  try {
    return {context, RankDevice::kEvents};
  } catch (const cuda::CudaError& error) {
    why_none = error.what();
    return {context, 0};
  }
}

}  // namespace

RankDevice::Opened::Opened(const cuda::Driver& driver, cuda::Device number)
    : context(driver, number),
      local_events(context),
      events(make_events(context, why_no_events)),
      exports(driver),
      staging(context),
      copies(context, local_events) {
  driver.must(driver.cuDeviceGetUuid, &uuid, number);
  load_reductions();
}

void RankDevice::Opened::load_reductions() {
  if (cuda::kernel_image().empty()) {
    why_no_reductions = "this build has no kernels that combine it (made without nvcc)";
    return;
  }
  try {
    reductions.emplace(context, cuda::kernel_image());
  } catch (const cuda::CudaError& error) {
    why_no_reductions = fmt::format("{} (the kernels that combine it are of {}, the driver is for {})", error.what(),
                                    cuda::kernel_compiler(), context.driver().version());
  }
}

std::shared_ptr<RankDevice::Opened::Queue> RankDevice::Opened::queue_of(std::uint64_t communicator) {
  const auto is_free = [](const auto& queue) { return queue.use_count() == 1 && queue->copies.idle(); };
  const auto used = std::find_if(queues.begin(), queues.end(), [&](const auto& queue) {
    return queue->communicator == communicator && !is_free(queue);
  });
  if (used != queues.end()) return *used;
  auto free = std::find_if(queues.begin(), queues.end(), is_free);
  if (free == queues.end()) free = queues.insert(free, std::make_shared<Queue>(*this));
  (*free)->communicator = communicator;
  return *free;
}

}  // namespace rondo::detail
