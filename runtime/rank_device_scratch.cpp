// Memory of the device that collectives take for a while.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/rank_device.hpp"

namespace rondo::detail {

std::shared_ptr<DeviceScratch> RankDevice::scratch(std::size_t bytes) {
  Opened& device = *opened_;
  const Allocation allocation = take_scratch(bytes);
  const auto give_back = [&device, whole = allocation.bytes](const DeviceScratch* over) {
    device.scratch.emplace(whole, over->address);
    delete over;
  };
  std::shared_ptr<DeviceScratch> scratch(new DeviceScratch{allocation.address, {}}, give_back);
  const cuda::Current current(device.context);
  scratch->memory = cuda::classify(device.context.driver(), allocation.address);
  return scratch;
}

RankDevice::Allocation RankDevice::take_scratch(std::size_t bytes) {
  auto& kept = opened_->scratch;
  const auto reuse = [&kept](auto found) {
    const Allocation allocation{found->second, found->first};
    kept.erase(found);
    return allocation;
  };
  // So that those which grow from one collective to the next take what the one before had.
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kDriverBlock));
  if (const auto found = kept.find(rounded); found != kept.end()) return reuse(found);
  if (const auto taken = take_if_there(rounded)) return *taken;
  if (const auto larger = kept.lower_bound(bytes); larger != kept.end()) return reuse(larger);
  free_parked();
  free_unmapped_scratch();
  if (const auto taken = take_if_there(rounded)) return *taken;
  return take(bytes);
}

std::optional<RankDevice::Allocation> RankDevice::take_if_there(std::size_t bytes) {
  try {
    return take(bytes);
  } catch (const cuda::CudaError& error) {
    if (error.code() != cuda::Result::out_of_memory) throw;
    return std::nullopt;
  }
}

void RankDevice::free_unmapped_scratch() {
  if (may_wait()) return;
  std::erase_if(opened_->scratch, [this](const auto& block) {
    const auto& [bytes, address] = block;
    if (!opened_->exports.is_unknown(address, bytes)) return false;
    free({address, bytes});
    return true;
  });
}

}  // namespace rondo::detail
