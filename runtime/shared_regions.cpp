#include "runtime/shared_regions.hpp"

namespace rondo::detail {

SharedRegions::Place SharedRegions::find(const std::byte* data, std::size_t bytes, int member) const noexcept {
  for (const Region& region : regions_) {
    const auto memory = region.memory.lock();
    if (!memory) continue;
    const std::byte* const begin = memory->data() + static_cast<std::size_t>(member) * region.part_bytes;
    if (data < begin || data + bytes > begin + region.part_bytes) continue;
    return {region.number, static_cast<std::uint64_t>(data - begin)};
  }
  return {};
}

std::shared_ptr<const std::byte> SharedRegions::at(const Place& place, std::uint64_t bytes, int member) const noexcept {
  for (const Region& region : regions_) {
    if (region.number != place.region) continue;
    auto memory = region.memory.lock();
    const bool fits = member >= 0 && place.offset <= region.part_bytes && bytes <= region.part_bytes - place.offset;
    if (!memory || !fits) return nullptr;
    const std::byte* const begin = memory->data() + static_cast<std::size_t>(member) * region.part_bytes;
    return {std::move(memory), begin + place.offset};
  }
  return nullptr;
}

std::byte* SharedRegions::part(std::uint64_t number, int member) const noexcept {
  for (const Region& region : regions_) {
    const auto memory = region.number == number ? region.memory.lock() : nullptr;
    if (memory) return memory->data() + static_cast<std::size_t>(member) * region.part_bytes;
  }
  return nullptr;
}

std::uint64_t SharedRegions::known() const noexcept {
  std::uint64_t known = 0;
  for (const Region& region : regions_) {
    if (!region.memory.expired()) known = (known ^ region.number) * 0x9e3779b97f4a7c15u;
  }
  return known;
}

}  // namespace rondo::detail
