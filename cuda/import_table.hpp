#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/context.hpp"
#include "cuda/region.hpp"

namespace rondo::cuda {

/// The regions of one peer, another process, that this one has been told of; each is mapped when first used, which
/// takes long, and stays so until its owner ends it, or until it is closed in favour of others: by `close_idle`, or
/// where more are idle than are kept. For memory that is mapped stays with its owner's device even when that has freed
/// it, and an owner who frees without telling ends a region only when something else comes to lie there.
///
/// To close a mapping a driver may wait for all that this process has queued on the device, and so for whomever that
/// waits for, dead or alive. So whoever has the table says when: by `close_due`, `close_idle` and its end.
///
/// A region that its owner has ended is due when its last use is over, and is answered once it is closed. Until then
/// a region that lies at the same place at its owner must wait: the driver could not map both.
///
/// Belongs to one thread at a time. The context outlives it. All uses must be over before it goes: whoever made them
/// waits for the streams that they were queued on.
class ImportTable {
 public:
  /// A region in use: it stays mapped as long as this lives. To be held until the device is done with it.
  class Use {
   public:
    Use(Use&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), id_(other.id_), address_(other.address_) {}
    Use& operator=(Use&& other) noexcept;
    ~Use() { release(); }

    /// The place asked for, in this process.
    Address address() const noexcept { return address_; }

   private:
    friend class ImportTable;
    Use(ImportTable& table, RegionId id, Address address) : table_(&table), id_(id), address_(address) {}
    void release() noexcept;

    ImportTable* table_;
    RegionId id_;
    Address address_;
  };

  /// More than the buffers of a job that uses the same ones again and again.
  static constexpr std::size_t kMostIdle = 64;

  ImportTable(const PrimaryContext& context, int peer, std::size_t most_idle = kMostIdle)
      : context_(context), peer_(peer), most_idle_(most_idle) {}
  ~ImportTable();
  ImportTable(const ImportTable&) = delete;
  ImportTable& operator=(const ImportTable&) = delete;

  /// The owner describes a region. Maps nothing yet. Throws RegionError: it has described it before.
  void announce(const RegionDescription& region);
  /// It has been described, and not ended.
  bool has(RegionId region) const noexcept;
  /// Somebody has an address of a region: they must be done before this object goes.
  bool in_use() const noexcept;
  /// `bytes` bytes at `offset` of a region. Nothing: a region at the same place is yet to be closed, or another thread
  /// is closing one now. Throws RegionError for a region that there is not, or not that much of; CudaError when it
  /// cannot be mapped.
  std::optional<Use> use(RegionId region, std::uint64_t offset, std::uint64_t bytes);
  /// Since when nobody has used the region that has been mapped in vain for longest: the number of its last use among
  /// those of all tables, by the order in which they ended. Nothing: all that is mapped is in use.
  std::optional<std::uint64_t> idle_since() noexcept;
  /// Closes that region. It is mapped anew when it is used again.
  void close_idle() noexcept;
  /// Whether there was room for a region when it was last to be mapped: none beside those in use, or none at all.
  enum class Room { found, none_beside_uses, none };
  Room room(RegionId region) const { return imports_.at(region).room; }
  /// Until it is mapped. There is such a region.
  void note_no_room(RegionId region, Room room) { imports_.at(region).room = room; }
  /// The owner ends a region. Throws RegionError: there is none such.
  void unmap(RegionId region);
  /// Regions that have been ended, or more idle ones than are kept, are mapped in vain.
  bool has_due() const noexcept { return !due_.empty() || idle_ > most_idle_; }
  /// Closes those.
  void close_due() noexcept;
  /// Those closed since the last call, of which the owner is to be told.
  std::vector<RegionId> take_closed() { return std::exchange(closed_, {}); }

  std::size_t mapped() const noexcept;

 private:
  struct Import {
    RegionDescription region;
    Address mapped = 0;  ///< here; 0: not mapped
    std::size_t uses = 0;
    std::uint64_t idle_since = 0;
    bool ended = false;
    Room room = Room::found;
  };

  Import& find(RegionId region);
  Import* longest_idle() noexcept;
  /// Whether a region at the same place at the owner is still mapped.
  bool must_wait(const Import& wanted) const;
  /// False: another thread is closing a region.
  bool map(Import& import);
  void end_use(RegionId region) noexcept;
  void close(Import& import) noexcept;

  const PrimaryContext& context_;
  int peer_;
  std::size_t most_idle_;
  std::size_t idle_ = 0;  ///< mapped, and nobody uses them
  std::map<RegionId, Import> imports_;
  std::vector<RegionId> due_;  ///< ended, and nobody uses them
  std::vector<RegionId> closed_;
};

}  // namespace rondo::cuda
