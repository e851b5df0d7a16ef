#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/shared_memory.hpp"

namespace rondo::detail {

/// Buffers that the members of a team have allocated in common memory, each member its own part of each region. A
/// region is known as long as its owner, the user's buffer, lives. Members are known by their places.
class SharedRegions {
 public:
  /// Where bytes lie: in which region (0: in none), and how far from the begin of the member's part.
  struct Place {
    std::uint64_t region = 0;
    std::uint64_t offset = 0;
  };

  /// Some may live: the same answer on all members in the same turn, unlike what still does.
  bool any() const noexcept { return any_; }
  /// The number of the next region.
  std::uint64_t next() noexcept {
    any_ = true;
    return ++made_;
  }
  /// All members have told each other, in a step of one turn, that they know none.
  void none_left() noexcept { any_ = false; }

  void add(std::uint64_t number, const std::shared_ptr<SharedMemory>& memory, std::size_t part_bytes) {
    std::erase_if(regions_, [](const Region& region) { return region.memory.expired(); });
    regions_.push_back({number, memory, part_bytes});
  }
  /// The last that was asked for is none, or is (empty), and why.
  void refuse(std::string why) { refused_ = std::move(why); }
  const std::string& refused() const noexcept { return refused_; }
  Place find(const std::byte* data, std::size_t bytes, int member) const noexcept;
  /// Where a member's place is mapped here, and stays so while this is held: another thread may give up its buffer of
  /// the region meanwhile. nullptr: it is not mapped, or not so many bytes, or there is no such member (-1).
  std::shared_ptr<const std::byte> at(const Place& place, std::uint64_t bytes, int member) const noexcept;
  /// The begin of a member's part, mapped as long as the region is known here; nullptr: it is not.
  std::byte* part(std::uint64_t number, int member) const noexcept;
  /// Adds to `held` what keeps the regions known that are known now.
  template <typename Held>
  void hold(Held& held) const {
    for (const Region& region : regions_) {
      if (auto memory = region.memory.lock()) held.push_back(std::move(memory));
    }
  }
  /// A fingerprint of the regions that are known here: members with the same one know the same. 0: none.
  std::uint64_t known() const noexcept;

 private:
  struct Region {
    std::uint64_t number;
    std::weak_ptr<SharedMemory> memory;
    std::size_t part_bytes;
  };

  std::vector<Region> regions_;
  std::uint64_t made_ = 0;
  bool any_ = false;
  std::string refused_;
};

}  // namespace rondo::detail
