#include "cuda/export_registry.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace rondo::cuda {
namespace {

bool overlap(const RegionDescription& region, Address base, std::uint64_t bytes) {
  return region.base < base + bytes && base < region.base + region.bytes;
}

}  // namespace

ExportRegistry::Exposure ExportRegistry::expose(int peer, const PointerFacts& memory, Address address) {
  Region& region = open(memory);
  Exposure exposure;
  exposure.unmap = std::exchange(unsent_, {});
  exposure.region = region.description.id;
  exposure.offset = address - region.description.base;
  if (region.known_by.insert(peer).second) exposure.description = region.description;
  return exposure;
}

ExportRegistry::Region& ExportRegistry::open(const PointerFacts& memory) {
  if (const auto found = live_.find(memory.base); found != live_.end() && found->second.buffer_id == memory.buffer_id) {
    return found->second;
  }
  end_overlapping(memory.base, memory.bytes);
  if (last_id_ == std::numeric_limits<RegionId>::max()) throw RegionError("no region numbers are left");
  Region region;
  region.description = {.id = last_id_ + 1, .base = memory.base, .bytes = memory.bytes, .handle = {}};
  region.buffer_id = memory.buffer_id;
  driver_.must(CudaFacts{.peer = -1, .bytes = memory.bytes}, driver_.cuIpcGetMemHandle, &region.description.handle,
               memory.base);
  ++last_id_;
  return live_.emplace(memory.base, std::move(region)).first->second;
}

void ExportRegistry::end_overlapping(Address base, std::uint64_t bytes) {
  auto region = live_.lower_bound(base);
  if (region != live_.begin() && overlap(std::prev(region)->second.description, base, bytes)) --region;
  while (region != live_.end() && overlap(region->second.description, base, bytes)) region = end(region);
}

ExportRegistry::Live::iterator ExportRegistry::end(Live::iterator region) {
  const RegionId id = region->second.description.id;
  for (const int peer : region->second.known_by) unsent_.push_back({peer, id});
  if (!region->second.known_by.empty()) ended_.emplace(id, std::move(region->second));
  return live_.erase(region);
}

std::vector<ExportRegistry::Unmap> ExportRegistry::retire(Address base, std::uint64_t bytes) {
  retired_.insert(base);
  end_overlapping(base, bytes);
  return std::exchange(unsent_, {});
}

bool ExportRegistry::is_closed(Address base, std::uint64_t bytes) const {
  return std::none_of(ended_.begin(), ended_.end(),
                      [&](const auto& ended) { return overlap(ended.second.description, base, bytes); });
}

bool ExportRegistry::is_unknown(Address base, std::uint64_t bytes) const {
  return is_closed(base, bytes) && std::none_of(live_.begin(), live_.end(), [&](const auto& live) {
           return !live.second.known_by.empty() && overlap(live.second.description, base, bytes);
         });
}

void ExportRegistry::closed(int peer, RegionId region) {
  const auto ended = ended_.find(region);
  if (ended == ended_.end() || ended->second.known_by.erase(peer) == 0) {
    throw RegionError(fmt::format("rank {}: says that it closed region {}, which it was not asked to", peer, region));
  }
  if (ended->second.known_by.empty()) ended_.erase(ended);
}

void ExportRegistry::forget(int peer) {
  for (auto& [base, region] : live_) region.known_by.erase(peer);
  std::erase_if(unsent_, [&](const Unmap& unmap) { return unmap.peer == peer; });
  for (auto ended = ended_.begin(); ended != ended_.end();) {
    ended->second.known_by.erase(peer);
    ended = ended->second.known_by.empty() ? ended_.erase(ended) : std::next(ended);
  }
}

}  // namespace rondo::cuda
