// Collectives in which ranks fetch blocks out of each other's memory, where that does not go, or no more.

#include "tests/support/unreadable.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/deny.hpp"
#include "tests/support/ranks.hpp"
#include "transport/process_memory.hpp"

namespace {

// Per thread, and so per rank: to read what is tried takes long, else no time at all, however busy the cores are; how
// often it has read more.
thread_local bool reads_slowly = false;
thread_local int long_reads = 0;

}  // namespace

// Instead of the C library's, for the whole program.
extern "C" ssize_t process_vm_readv(pid_t process, const iovec* here, unsigned long here_count, const iovec* there,
                                    unsigned long there_count, unsigned long flags) noexcept {
  if (here->iov_len == rondo::detail::kTriedBytes) {
    const auto begin = std::chrono::steady_clock::now();
    while (reads_slowly && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) continue;
    return static_cast<ssize_t>(here->iov_len);
  }
  if (here->iov_len > rondo::detail::kTriedBytes) ++long_reads;
  return ::syscall(SYS_process_vm_readv, process, here, here_count, there, there_count, flags);
}

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr std::size_t kBlock = 70'001;  // no part of which that is read at once is as long as what is tried
constexpr std::uint32_t kSpoiled = 0xdeadbeef;
constexpr Collective kFetching[] = {Collective::scatter, Collective::all_to_all, Collective::all_gather,
                                    Collective::gather, Collective::broadcast};
constexpr Options kFetched{.algorithm = Algorithm::fetched};

using Words = std::span<std::uint32_t>;

void fill(Words words, std::uint32_t first) {
  for (std::uint32_t& word : words) word = first++;
}

bool counts_from(Words words, std::uint32_t first) {
  return std::all_of(words.begin(), words.end(), [&](std::uint32_t word) { return word == first++; });
}

/// What a rank has for others.
std::uint32_t first_of(int rank) { return static_cast<std::uint32_t>(rank + 1) * 10'000'000; }

/// Does one collective, whose `root` also has what it sends in `owned`, as long as all blocks, and checks it. What was
/// sent is spoiled at once.
void one(Communicator& world, Collective collective, int root, Words owned) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const int me = world.rank();
  const auto block = [](Words all, int of) { return all.subspan(static_cast<std::size_t>(of) * kBlock, kBlock); };
  const auto my_part = static_cast<std::uint32_t>(me) * static_cast<std::uint32_t>(kBlock);
  std::vector<std::uint32_t> got(kBlock * ranks);
  fill(owned, first_of(me));
  bool right = true;
  switch (collective) {
    case Collective::scatter:
      scatter(world, std::span<const std::uint32_t>(owned), block(got, 0), root, kFetched);
      right = counts_from(block(got, 0), first_of(root) + my_part);
      break;
    case Collective::all_to_all:
      all_to_all(world, std::span<const std::uint32_t>(owned), Words(got), kFetched);
      for (int from = 0; from < world.size(); ++from) right &= counts_from(block(got, from), first_of(from) + my_part);
      break;
    case Collective::all_gather:
      all_gather(world, std::span<const std::uint32_t>(block(owned, 0)), Words(got), kFetched);
      for (int from = 0; from < world.size(); ++from) right &= counts_from(block(got, from), first_of(from));
      fill(block(owned, me), first_of(me));
      all_gather(world, owned, kFetched);
      for (int from = 0; from < world.size(); ++from) right &= counts_from(block(owned, from), first_of(from));
      break;
    case Collective::gather:
      gather(world, std::span<const std::uint32_t>(block(owned, 0)), me == root ? Words(got) : Words(), root, kFetched);
      for (int from = 0; me == root && from < world.size(); ++from)
        right &= counts_from(block(got, from), first_of(from));
      break;
    default: broadcast(world, owned, root, kFetched); right = counts_from(owned, first_of(root));
  }
  std::fill(owned.begin(), owned.end(), kSpoiled);
  require(right, to_string(collective));
}

std::optional<bool> readable(Communicator& world) { return CommunicatorAccess::group(world, "").commons().readable(); }

/// All find that they may read each other.
void find_out(Communicator& world) {
  std::vector<std::uint32_t> data(kBlock * static_cast<std::size_t>(world.size()));
  for (const Collective collective : kFetching) one(world, collective, 0, data);
  require(readable(world) == true, "they may not read each other");
}

}  // namespace

TEST_CASE("blocks that others cannot read reach them all the same", "[collectives][unreadable]") {
  for (const int size : {2, 3}) {
    for (const int owner : {0, size - 1, -1}) {
      run_ranks(size, [&](Communicator& world) {
        find_out(world);
        const std::size_t count = kBlock * static_cast<std::size_t>(size);
        std::vector<std::uint32_t> ordinary(count);
        Unreadable<std::uint32_t> secret(count);
        const bool hides = owner < 0 || owner == world.rank();
        for (int round = 0; round < 3; ++round) {
          for (const Collective collective : kFetching) {
            one(world, collective, std::max(owner, 0), hides ? secret.span() : Words(ordinary));
          }
        }
        require(readable(world) == true, "they stopped reading");
      });
    }
  }
}

TEST_CASE("ranks of which one may not read the others' memory any more go on, and soon all know",
          "[collectives][unreadable]") {
  for (const int size : {2, 3}) {
    for (const int who : {0, size - 1}) {
      for (const Collective first : kFetching) {
        run_ranks(size, [&](Communicator& world) {
          find_out(world);
          if (world.rank() == who) deny_reading();
          std::vector<std::uint32_t> data(kBlock * static_cast<std::size_t>(size));
          one(world, first, size - 1 - who, data);
          one(world, Collective::all_to_all, 0, data);
          for (const Collective collective : kFetching) one(world, collective, size - 1, data);
          require(readable(world) == false, "they still read each other");
        });
      }
    }
  }
}

TEST_CASE("nobody reads where one has found, as it was connected, that reading is slow", "[collectives][unreadable]") {
  for (const int size : {2, 3}) {
    for (const int who : {0, size - 1, -1}) {
      run_ranks(size, [&](Communicator& world) {
        reads_slowly = who < 0 || who == world.rank();
        std::vector<std::uint32_t> data(kBlock * static_cast<std::size_t>(size));
        barrier(world);
        long_reads = 0;
        for (const Collective collective : kFetching) one(world, collective, 0, data);
        require(readable(world) == false, "they read each other");
        require(long_reads == 0, "blocks were read");
      });
    }
  }
}
