#include "collectives/arguments.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/deadline_wait.hpp"
#include "runtime/message_arguments.hpp"

namespace rondo::detail {
namespace {

/// The counts of all_to_all differ from rank to rank: all that must agree is that there are any.
constexpr std::uint64_t kCountsOfEachRank = 1;

/// Never 0, which stands for no counts.
std::uint64_t hash_of(std::span<const std::size_t> counts) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::size_t count : counts) hash = (hash ^ count) * 0x100000001b3U ^ (hash >> 29);
  return hash | 1U;
}

/// One call of one rank, on the way to its Arguments.
class Checker {
 public:
  Checker(const CollectiveCall& call, int rank, int size, Arguments& arguments)
      : call_(call), rank_(rank), size_(size), arguments_(arguments) {}

  void check();

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(Errc::invalid_argument, text, {.rank = rank_, .operation = std::string(to_string(call_.collective))});
  }

  bool at_root() const noexcept { return rank_ == call_.root; }
  std::size_t largest_count() const noexcept {
    return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / call_.element_bytes;
  }
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size_); }
  /// Known without a division to fit memory, so many elements for every rank.
  bool is_small(std::size_t count) const noexcept { return (count | call_.element_bytes | ranks()) >> 20 == 0; }

  void check_timeout() const;
  void check_root() const;
  void check_bytes(const char* name, std::size_t count) const;
  void check_memory() const;
  void check_address(const char* name, const void* data, std::size_t count) const;
  void check_sides() const;
  /// Why a count is wanted: put into words only where it is not there.
  enum class Why : std::uint8_t { as_in, own_share, all_shares, sum_of_send_counts, sum_of_recv_counts };
  void check_count(const char* name, std::size_t count, std::size_t wanted, Why why) const {
    if (count != wanted) fail(fmt::format("{} has {} elements, wanted {}: {}", name, count, wanted, text(why)));
  }
  std::string text(Why why) const;
  Blocks blocks_of(const char* name, std::span<const std::size_t> counts) const;
  Blocks shares(std::size_t share);
  std::size_t divided(const char* name, std::size_t count) const;

  void check_whole(bool output_here);
  void check_scatter();
  void check_gather();
  void check_all_gather();
  void check_reduce_scatter();
  void check_all_to_all();
  void check_overlap(const std::byte* in, std::size_t in_count, std::size_t own_in_in, std::size_t own_in_out);

  const CollectiveCall& call_;
  const int rank_;
  const int size_;
  Arguments& arguments_;
};

void Checker::check_timeout() const {
  if (is_timeout(call_.options)) return;
  fail(fmt::format("the timeout is {}, wanted more than 0", seconds_text(*call_.options.timeout)));
}

void Checker::check_root() const {
  if (call_.root >= 0 && call_.root < size_) return;
  fail(fmt::format("root is rank {}, wanted 0 to {}", call_.root, size_ - 1));
}

/// A negative number that became a count is larger than any buffer.
void Checker::check_bytes(const char* name, std::size_t count) const {
  if (is_small(count) || count <= largest_count()) return;
  fail(fmt::format("{} has {} elements of {} bytes, more than memory can hold{}", name, count, call_.element_bytes,
                   if_negative(count)));
}

std::string Checker::text(Why why) const {
  switch (why) {
    case Why::as_in: return "as many as in";
    case Why::own_share: return fmt::format("{} for rank {}", arguments_.blocks.count(rank_), rank_);
    case Why::sum_of_send_counts: return "the sum of send_counts";
    case Why::sum_of_recv_counts: return "the sum of recv_counts";
    case Why::all_shares: break;
  }
  if (call_.by_counts) return "the sum of counts";
  return fmt::format("{} for each of {} ranks", arguments_.blocks.count(0), size_);
}

Blocks Checker::blocks_of(const char* name, std::span<const std::size_t> counts) const {
  if (counts.size() != ranks()) {
    fail(fmt::format("{} has {} entries, wanted {}, one for each rank", name, counts.size(), size_));
  }
  const std::size_t largest = largest_count();
  std::size_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > largest - total) {
      fail(fmt::format("{}[{}] is {}, with which the sum is more than memory can hold{}", name, i, counts[i],
                       if_negative(counts[i])));
    }
    total += counts[i];
  }
  return Blocks::of_counts(counts);
}

/// `share` elements for each rank, or what the counts say.
Blocks Checker::shares(std::size_t share) {
  if (call_.by_counts) {
    Blocks blocks = blocks_of("counts", call_.counts);
    arguments_.count = blocks.total();
    arguments_.counts_hash = hash_of(call_.counts);
    return blocks;
  }
  if (!is_small(share) && share > largest_count() / ranks()) {
    fail(fmt::format("{} elements of {} bytes for each of {} ranks are more than memory can hold", share,
                     call_.element_bytes, size_));
  }
  arguments_.count = share;
  return Blocks::even(share * ranks(), size_);
}

/// A rank's share of `count` elements; with counts they say it.
std::size_t Checker::divided(const char* name, std::size_t count) const {
  if (count % ranks() == 0 || call_.by_counts) return count / ranks();
  fail(fmt::format("{} has {} elements, wanted a multiple of {}, the number of ranks", name, count, size_));
}

/// all_reduce and reduce, and broadcast's one buffer.
void Checker::check_whole(bool output_here) {
  const std::size_t count = call_.in_place ? call_.out_count : call_.in_count;
  arguments_.count = count;
  arguments_.blocks = Blocks::even(count, size_);
  if (call_.in_place) {
    arguments_.input = arguments_.output;
    if (!output_here) arguments_.output = nullptr;
    arguments_.in_place = output_here;
  } else if (!output_here) {
    arguments_.output = nullptr;
  } else {
    check_count("out", call_.out_count, count, Why::as_in);
    check_overlap(arguments_.input, count, 0, 0);
  }
}

void Checker::check_scatter() {
  arguments_.blocks = shares(call_.out_count);
  check_count("out", call_.out_count, arguments_.blocks.count(rank_), Why::own_share);
  if (!at_root()) return;
  check_count("in", call_.in_count, arguments_.blocks.total(), Why::all_shares);
  check_overlap(arguments_.input, call_.in_count, arguments_.blocks.begin(rank_), 0);
  // To the algorithms, in place means that the output is the whole vector. Here it is the block, with nothing to copy.
  arguments_.in_place = false;
}

void Checker::check_gather() {
  arguments_.blocks = shares(call_.in_count);
  check_count("in", call_.in_count, arguments_.blocks.count(rank_), Why::own_share);
  if (!at_root()) return;
  check_count("out", call_.out_count, arguments_.blocks.total(), Why::all_shares);
  check_overlap(arguments_.input, call_.in_count, 0, arguments_.blocks.begin(rank_));
}

void Checker::check_all_gather() {
  arguments_.blocks = shares(call_.in_place ? divided("inout", call_.out_count) : call_.in_count);
  const std::size_t own = arguments_.blocks.begin(rank_);
  check_count(call_.in_place ? "inout" : "out", call_.out_count, arguments_.blocks.total(), Why::all_shares);
  if (call_.in_place) {
    arguments_.input = arguments_.output + own * call_.element_bytes;
    arguments_.in_place = true;
  } else {
    check_count("in", call_.in_count, arguments_.blocks.count(rank_), Why::own_share);
    check_overlap(arguments_.input, call_.in_count, 0, own);
  }
}

void Checker::check_reduce_scatter() {
  arguments_.blocks = shares(call_.in_place ? divided("inout", call_.out_count) : call_.out_count);
  const std::size_t own = arguments_.blocks.begin(rank_);
  if (call_.in_place) {
    check_count("inout", call_.out_count, arguments_.blocks.total(), Why::all_shares);
    arguments_.input = arguments_.output;
    arguments_.output += own * call_.element_bytes;
  } else {
    check_count("out", call_.out_count, arguments_.blocks.count(rank_), Why::own_share);
    check_count("in", call_.in_count, arguments_.blocks.total(), Why::all_shares);
    check_overlap(arguments_.input, call_.in_count, own, 0);
  }
}

void Checker::check_all_to_all() {
  if (call_.by_counts) {
    arguments_.blocks = blocks_of("send_counts", call_.counts);
    arguments_.recv_blocks = blocks_of("recv_counts", call_.recv_counts);
    arguments_.counts_hash = kCountsOfEachRank;
    check_count("in", call_.in_count, arguments_.blocks.total(), Why::sum_of_send_counts);
    check_count("out", call_.out_count, arguments_.recv_blocks.total(), Why::sum_of_recv_counts);
    if (arguments_.blocks.count(rank_) != arguments_.recv_blocks.count(rank_)) {
      fail(fmt::format("send_counts[{0}] is {1} and recv_counts[{0}] is {2}, wanted the same: rank {0} is the caller",
                       rank_, arguments_.blocks.count(rank_), arguments_.recv_blocks.count(rank_)));
    }
  } else {
    const std::size_t count = call_.in_place ? call_.out_count : call_.in_count;
    arguments_.count = divided(call_.in_place ? "inout" : "in", count);
    if (!call_.in_place) check_count("out", call_.out_count, count, Why::as_in);
    arguments_.blocks = Blocks::even(count, size_);
    arguments_.recv_blocks = arguments_.blocks;
  }
  if (call_.in_place) {
    arguments_.input = arguments_.output;
    arguments_.in_place = true;
  } else {
    check_overlap(arguments_.input, call_.in_count, 0, 0);
    if (arguments_.in_place && call_.by_counts)
      fail("in and out are one buffer, which all_to_all by counts cannot use");
  }
}

/// In and out lie apart, or element `own_in_in` of in is element `own_in_out` of out: then the operation is in place.
void Checker::check_overlap(const std::byte* in, std::size_t in_count, std::size_t own_in_in, std::size_t own_in_out) {
  const auto in_begin = reinterpret_cast<std::uintptr_t>(in);
  const auto out_begin = reinterpret_cast<std::uintptr_t>(arguments_.output);
  const auto in_end = in_begin + in_count * call_.element_bytes;
  const auto out_end = out_begin + call_.out_count * call_.element_bytes;
  const auto begin = std::max(in_begin, out_begin);
  const auto end = std::min(in_end, out_end);
  if (begin >= end) return;
  if (in_begin + own_in_in * call_.element_bytes == out_begin + own_in_out * call_.element_bytes) {
    arguments_.in_place = true;
    return;
  }
  const bool whole = own_in_in == 0 && own_in_out == 0 && in_count == call_.out_count;
  fail(
      fmt::format("in and out overlap by {} bytes (in: {} bytes at {:#x}, out: {} bytes at {:#x}), wanted {} or no "
                  "overlap",
                  end - begin, in_end - in_begin, in_begin, out_end - out_begin, out_begin,
                  whole ? "one buffer for both" : "the caller's own block of the longer one"));
}

void Checker::check_address(const char* name, const void* data, std::size_t count) const {
  if (count > 0 && data == nullptr) fail(fmt::format("{} of {} elements is at no address (nullptr)", name, count));
}

void Checker::check_memory() const {
  if (call_.in_place) return check_address("inout", call_.out, call_.out_count);
  if (gives(call_, rank_)) check_address("in", call_.in, call_.in_count);
  if (gets(call_, rank_)) check_address("out", call_.out, call_.out_count);
}

void Checker::check_sides() const {
  const bool both = call_.in_count > 0 && call_.out_count > 0;
  if (!both || call_.in_side.on_device == call_.out_side.on_device) return;
  const auto text = [](const BufferSide& side) { return side.on_device ? "a device" : "the host"; };
  fail(
      fmt::format("in is memory of {}, out of {}: wanted both of one side", text(call_.in_side), text(call_.out_side)));
}

void Checker::check() {
  arguments_.input = static_cast<const std::byte*>(call_.in);
  arguments_.output = static_cast<std::byte*>(call_.out);
  check_timeout();
  check_bytes(call_.in_place ? "inout" : "out", call_.out_count);
  check_bytes("in", call_.in_count);
  check_memory();
  check_sides();
  switch (call_.collective) {
    case Collective::all_reduce: check_whole(true); break;
    case Collective::reduce:
      check_root();
      check_whole(at_root());
      break;
    case Collective::broadcast:
      check_root();
      check_whole(true);
      break;
    case Collective::scatter:
      check_root();
      check_scatter();
      break;
    case Collective::gather:
      check_root();
      check_gather();
      break;
    case Collective::all_gather: check_all_gather(); break;
    case Collective::reduce_scatter: check_reduce_scatter(); break;
    case Collective::all_to_all: check_all_to_all(); break;
    case Collective::barrier:
    case Collective::none:
    case Collective::subgroup:
    case Collective::allocate: break;
  }
}

}  // namespace

bool gives(const CollectiveCall& call, int rank) noexcept {
  const bool only_root = call.collective == Collective::broadcast || call.collective == Collective::scatter;
  return !only_root || rank == call.root;
}

bool gets(const CollectiveCall& call, int rank) noexcept {
  const bool only_root = call.collective == Collective::reduce || call.collective == Collective::gather;
  return !only_root || rank == call.root;
}

bool has_elements(const CollectiveCall& call, int rank) noexcept {
  return (gets(call, rank) && call.out_count > 0) ||
         (gives(call, rank) && (call.in_place ? call.out_count : call.in_count) > 0);
}

Arguments check_arguments(const CollectiveCall& call, int rank, int size) {
  Arguments arguments;
  Checker(call, rank, size, arguments).check();
  return arguments;
}

}  // namespace rondo::detail
