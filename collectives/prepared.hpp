#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <rondo/collective_call.hpp>
#include <rondo/plan.hpp>
#include <rondo/tuning.hpp>

#include "collectives/arguments.hpp"
#include "collectives/direct.hpp"
#include "runtime/group.hpp"

namespace rondo::detail {

/// With all that the communicator has to say to it.
Question question_for(Collective collective, const Group& group);

/// A call that has been checked and decided. Depends on nothing but the call, and on what of the group never changes.
struct Prepared {
  Prepared() = default;
  /// Throws the caller's mistakes.
  Prepared(const CollectiveCall& request, const Group& group);

  Arguments arguments;
  Call call;
  Plan plan;
};

/// The last calls of a communicator: programs repeat themselves, and to check and decide a short collective takes
/// longer than to do it.
class RecentCalls {
 public:
  static RecentCalls& of(Group& group) {
    if (!group.recent_calls) group.recent_calls = std::make_shared<RecentCalls>();
    return *static_cast<RecentCalls*>(group.recent_calls.get());
  }

  struct Known {
    Prepared prepared;
    std::optional<Script> script;  ///< once it has been done on the spot
  };

  /// What was added for a call like this one, with the same buffers; nullptr: it is not known.
  Known* find(const CollectiveCall& request) noexcept {
    if (!may_be_known(request)) return nullptr;
    for (Entry& entry : entries_) {
      if (entry.key.is_of(request)) return &entry.known;
    }
    return nullptr;
  }
  /// To be found until some more have been added. Not by counts, nor on devices, and of operators only the predefined
  /// ones, in whatever order they combine.
  void add(const CollectiveCall& request, const Prepared& prepared);

 private:
  struct Key {
    const void* in = nullptr;
    const void* out = nullptr;
    std::size_t in_count = 0;
    std::size_t out_count = 0;
    std::size_t element_bytes = 0;
    std::size_t chunk_bytes = 0;
    int root = 0;
    Collective collective = Collective::none;
    ElementType type = ElementType::bytes;
    ReduceKind reduce = ReduceKind::none;
    Algorithm algorithm = Algorithm::automatic;
    bool in_place = false;
    bool deterministic = false;

    // One by one: with a key built first a broadcast of 8 B took a fifth longer.
    bool is_of(const CollectiveCall& request) const noexcept {
      return in == request.in && out == request.out && in_count == request.in_count && out_count == request.out_count &&
             collective == request.collective && type == request.type && reduce == request.reduction.kind() &&
             root == request.root && element_bytes == request.element_bytes && in_place == request.in_place &&
             algorithm == request.options.algorithm && chunk_bytes == request.options.chunk_bytes &&
             deterministic == request.options.deterministic;
    }
  };
  struct Entry {
    Key key;
    Known known;
  };

  /// The key tells all of it, but for a timeout, which is right or wrong by itself.
  static bool may_be_known(const CollectiveCall& request) noexcept {
    return !request.by_counts && !request.on_device() && request.reduction.kind() != ReduceKind::custom &&
           is_timeout(request.options);
  }

  std::array<Entry, 4> entries_;
  std::size_t next_ = 0;
};

}  // namespace rondo::detail
