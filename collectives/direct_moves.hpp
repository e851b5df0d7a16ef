#pragma once

#include <cstddef>

#include <rondo/plan.hpp>

namespace rondo::detail {

/// Who needs what of whom in a collective whose ranks read each other's memory, as one rank sees it.
class DirectMoves {
 public:
  DirectMoves(const Plan& plan, int rank, int size, bool in_place)
      : plan_(plan), rank_(rank), size_(size), in_place_(in_place) {}

  /// The ranks from `first` up to before `last`.
  struct Ranks {
    int first;
    int last;
    bool has(int rank) const noexcept { return rank >= first && rank < last; }
  };
  /// Those that this rank needs something of.
  Ranks sources() const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast:
      case Collective::scatter: return is_root() ? Ranks{0, 0} : Ranks{plan_.root, plan_.root + 1};
      case Collective::reduce:
      case Collective::gather: return is_root() ? Ranks{0, size_} : Ranks{0, 0};
      default: return {0, size_};
    }
  }
  /// Those that need something of this one.
  Ranks readers() const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast:
      case Collective::scatter: return is_root() ? Ranks{0, size_} : Ranks{0, 0};
      case Collective::gather: return is_root() ? Ranks{0, 0} : Ranks{plan_.root, plan_.root + 1};
      default: return {0, size_};
    }
  }
  /// What it gets is combined; otherwise it is copied.
  bool folds() const noexcept {
    return plan_.collective == Collective::all_reduce || plan_.collective == Collective::reduce_scatter ||
           (plan_.collective == Collective::reduce && is_root());
  }
  /// In place, inputs are overwritten while others read them.
  bool overwrites() const noexcept { return plan_.collective == Collective::all_to_all; }

  /// What others may need of this rank.
  Range offered() const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast: return is_root() ? whole(Buffer::output) : Range{};
      case Collective::scatter: return is_root() ? whole(Buffer::input) : Range{};
      case Collective::gather:
      case Collective::all_gather: return own_input();
      default: return whole(Buffer::input);
    }
  }
  /// All that it gets.
  Range got() const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast: return is_root() ? Range{} : whole(Buffer::output);
      case Collective::reduce:
      case Collective::gather: return is_root() ? whole(Buffer::output) : Range{};
      case Collective::scatter:
      case Collective::reduce_scatter: return own_output();
      case Collective::all_to_all: return plan_.recv_blocks.whole(Buffer::output);
      default: return whole(Buffer::output);
    }
  }
  /// Whether others need anything of a rank.
  bool is_owner(int member) const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast:
      case Collective::scatter: return member == plan_.root;
      case Collective::gather: return member != plan_.root && plan_.blocks.count(member) > 0;
      case Collective::reduce: return member != plan_.root;
      case Collective::all_gather: return plan_.blocks.count(member) > 0;
      default: return true;
    }
  }
  /// Where in what a rank offers lies what this one needs of it.
  std::size_t offset_in_offered() const noexcept {
    const bool by_reader = plan_.collective == Collective::scatter || plan_.collective == Collective::all_to_all ||
                           plan_.collective == Collective::reduce_scatter;
    return by_reader ? plan_.blocks.begin(rank_) : 0;
  }
  /// What a member needs of this rank.
  Range offered_to(int member) const noexcept {
    const bool by_reader = plan_.collective == Collective::scatter || plan_.collective == Collective::all_to_all;
    return by_reader ? plan_.blocks.in(Buffer::input, member) : offered();
  }
  /// Where what a member gives belongs.
  Range place_for(int member) const noexcept {
    switch (plan_.collective) {
      case Collective::broadcast: return whole(Buffer::output);
      case Collective::scatter:
      case Collective::reduce_scatter: return own_output();
      case Collective::all_to_all: return plan_.recv_blocks.in(Buffer::output, member);
      default: return plan_.blocks.in(Buffer::output, member);
    }
  }

  struct Copy {
    Range from;
    Range to;
  };
  /// What this rank has for itself.
  Copy kept() const noexcept {
    if (in_place_) return {};
    switch (plan_.collective) {
      case Collective::scatter: return is_root() ? Copy{plan_.blocks.in(Buffer::input, rank_), own_output()} : Copy{};
      case Collective::gather: return is_root() ? Copy{own_input(), plan_.blocks.in(Buffer::output, rank_)} : Copy{};
      case Collective::all_gather: return {own_input(), plan_.blocks.in(Buffer::output, rank_)};
      case Collective::all_to_all:
        return {plan_.blocks.in(Buffer::input, rank_), plan_.recv_blocks.in(Buffer::output, rank_)};
      default: return {};
    }
  }

  std::size_t touched() const noexcept { return elements_touched(plan_, size_, in_place_); }

  bool is_root() const noexcept { return rank_ == plan_.root; }
  Range whole(Buffer buffer) const noexcept { return plan_.blocks.whole(buffer); }
  Range own_output() const noexcept { return {Buffer::output, 0, plan_.blocks.count(rank_)}; }
  // In place the own block of all_gather stands where it will stay.
  Range own_input() const noexcept {
    if (in_place_ && plan_.collective == Collective::all_gather) return plan_.blocks.in(Buffer::output, rank_);
    return {Buffer::input, 0, plan_.blocks.count(rank_)};
  }

 protected:
  const Plan& plan_;
  const int rank_;
  const int size_;
  const bool in_place_;
};

}  // namespace rondo::detail
