#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "runtime/commons.hpp"

namespace rondo::detail {

/// Members of a communicator, in its order, that do a collective, or a part of one, among themselves: all of them,
/// those of one host, or one of each host. A place is a rank among them.
struct Team {
  std::vector<int> members;  ///< their ranks in the communicator
  int rank = -1;             ///< this rank's place; -1: it is none of them
  Commons commons;           ///< what they have in common, where all are on one host

  int size() const noexcept { return static_cast<int>(members.size()); }
  int member(int place) const noexcept { return members[static_cast<std::size_t>(place)]; }
  /// -1: no such member.
  int place_of(int member) const noexcept {
    const auto found = std::find(members.begin(), members.end(), member);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
};

/// The members of a communicator by host: a team on each, and teams across with one member of each. This one is rank 3:
///
///     host 0:   0   1   4        within:     3 5
///     host 1:   2                across(0):  0 2 3
///     host 2:   3   5            across(1):  1 2 5       who is alone on a host is in all of them
///                                across(2):  4 2 3
class Hosts {
 public:
  /// `host_of` tells of each member where it is; -1: it shares memory with nobody.
  Hosts(std::span<const int> host_of, int rank);

  int count() const noexcept { return count_; }
  /// Members on the host with the fewest. So many teams across, from the first, have no member in common.
  int fewest() const noexcept { return fewest_; }
  /// The members of a host are neighbours in rank order.
  bool in_order() const noexcept { return in_order_; }
  /// Each has as many.
  bool alike() const noexcept { return fewest_ * count_ == static_cast<int>(host_.size()); }

  /// Of a member: its host, and its place there. Hosts are numbered by their first members.
  int host(int member) const noexcept { return host_[static_cast<std::size_t>(member)]; }
  int place(int member) const noexcept { return place_[static_cast<std::size_t>(member)]; }

  Team& within() noexcept { return within_; }
  Team& across(int place) noexcept { return across_[static_cast<std::size_t>(place)]; }

 private:
  std::vector<int> host_;
  std::vector<int> place_;
  int count_ = 0;
  int fewest_ = 0;
  bool in_order_ = true;
  Team within_;
  std::vector<Team> across_;
};

}  // namespace rondo::detail
