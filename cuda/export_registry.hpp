#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cuda/pointer.hpp"
#include "cuda/region.hpp"

namespace rondo::cuda {

/// The allocations of this process that others may map. This side alone decides what a region is and when it ends;
/// whoever maps one closes it when told (`ImportTable`), never by guessing.
///
/// Memory is the user's, who frees it without telling: so it is asked about anew each time it is sent
/// (`classify`), and where an address has become another allocation's, the old region ends first. Everything for one
/// peer must travel in the order in which it comes out of here.
///
/// Belongs to one thread at a time. Peers are ranks. Sends nothing itself.
class ExportRegistry {
 public:
  struct Unmap {
    int peer = -1;
    RegionId region = 0;

    friend bool operator==(const Unmap&, const Unmap&) = default;
  };

  struct Exposure {
    std::vector<Unmap> unmap;  ///< to be sent before anything else, to the peers that they name
    RegionId region = 0;
    std::uint64_t offset = 0;                      ///< of the address in the region
    std::optional<RegionDescription> description;  ///< to be sent along: the peer does not know the region yet
  };

  /// `driver` outlives the registry.
  explicit ExportRegistry(const Driver& driver) : driver_(driver) {}

  /// What to tell `peer` so that it finds `address`, which lies in `memory`: exportable, and as `classify` says now. A
  /// context is current. Throws CudaError, and then nothing has changed but regions that have ended: their Unmaps
  /// come with the next exposure.
  Exposure expose(int peer, const PointerFacts& memory, Address address);

  /// The allocation is about to be freed: ends its region, if it has one. Free it once `is_closed` says so; nothing of
  /// it is to be exposed until it is `released`.
  std::vector<Unmap> retire(Address base, std::uint64_t bytes);
  bool is_retired(Address base) const { return retired_.contains(base); }
  void released(Address base) { retired_.erase(base); }
  /// Nobody maps, or is about to map, what lies in this range and has ended.
  bool is_closed(Address base, std::uint64_t bytes) const;
  /// Nor what has not ended.
  bool is_unknown(Address base, std::uint64_t bytes) const;

  /// The answer to an Unmap. Throws RegionError where none was asked for.
  void closed(int peer, RegionId region);
  /// The peer is gone: it maps nothing, and will answer nothing.
  void forget(int peer);

  std::size_t live_regions() const noexcept { return live_.size(); }

 private:
  struct Region {
    RegionDescription description;
    std::uint64_t buffer_id = 0;
    std::set<int> known_by;
  };
  using Live = std::map<Address, Region>;  ///< by base; they do not overlap

  /// Ends the regions that overlap this range.
  void end_overlapping(Address base, std::uint64_t bytes);
  Live::iterator end(Live::iterator region);
  Region& open(const PointerFacts& memory);

  const Driver& driver_;
  Live live_;
  std::map<RegionId, Region> ended_;  ///< and not closed yet by those in `known_by`
  std::vector<Unmap> unsent_;
  std::set<Address> retired_;  ///< and not released
  RegionId last_id_ = 0;
};

}  // namespace rondo::cuda
