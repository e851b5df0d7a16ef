#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/arena.hpp"
#include "runtime/shared_regions.hpp"
#include "runtime/trial.hpp"
#include "transport/shared_stores.hpp"

namespace rondo::detail {

/// What the members of a team (`team.hpp`) have in common when all are on one host: nothing until a collective asks for
/// it (`form_arena`); then an arena, or the knowledge, the same on all, that there is none. Collectives take turns in
/// it, in the order of their calls.
class Commons {
 public:
  bool formed() const noexcept { return formed_; }
  void form(std::unique_ptr<Arena> arena) noexcept {
    formed_ = true;
    arena_ = std::move(arena);
  }
  void form_none(std::string why) {
    formed_ = true;
    no_arena_ = std::move(why);
  }
  /// nullptr: there is none, for any member.
  Arena* arena() const noexcept { return arena_.get(); }
  /// Why, once they know.
  const std::string& no_arena() const noexcept { return no_arena_; }

  /// Buffers that users have allocated here.
  SharedRegions& regions() noexcept { return regions_; }

  /// Whether every member may read the memory of every other; nothing: they have not found out yet. The same on all.
  std::optional<bool> readable() const noexcept { return readable_; }
  void found_readable(bool readable) noexcept { readable_ = readable; }
  /// This rank may do so no more, which the others hear in the next step that is about it.
  bool forbidden() const noexcept { return forbidden_; }
  void forbid_reading() noexcept { forbidden_ = true; }

  /// How this rank writes into the arena.
  SharedStores& stores() noexcept { return stores_; }

  /// Of calls of this collective with blocks of about so many bytes, where there are two ways. Very long ones are
  /// alike.
  Trial& trial(Collective collective, std::size_t bytes) {
    constexpr std::size_t kLong = std::size_t{64} << 20;
    return trials_[{collective, static_cast<int>(std::bit_width(std::min(bytes, kLong))) / 2}];
  }

  std::uint64_t take_ticket() noexcept { return tickets_++; }
  bool turn_of(std::uint64_t ticket) const noexcept { return served_ == ticket; }
  void turn_is_over() noexcept { ++served_; }
  bool idle() const noexcept { return served_ == tickets_; }

  /// See `Link::rest`.
  bool rest(bool resting) noexcept {
    if (arena_) arena_->rest(resting);
    return arena_ != nullptr;
  }

 private:
  bool formed_ = false;
  std::unique_ptr<Arena> arena_;
  std::string no_arena_;
  SharedRegions regions_;
  SharedStores stores_;
  std::optional<bool> readable_;
  bool forbidden_ = false;
  std::map<std::pair<Collective, int>, Trial> trials_;
  std::uint64_t tickets_ = 0;
  std::uint64_t served_ = 0;
};

}  // namespace rondo::detail
