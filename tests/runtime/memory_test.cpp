// What README says that pairs of ranks and communicators take of the heap.

#include <malloc.h>

#include <barrier>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

/// In use, of all arenas of all threads and so of all ranks.
std::size_t heap_bytes() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

void check(std::size_t got, std::size_t most, const std::string& what) {
  require(got <= most, what + ": " + std::to_string(got) + " bytes, wanted at most " + std::to_string(most));
}

}  // namespace

TEST_CASE("communicators and pairs of ranks take no more of the heap than README says", "[runtime][memory]") {
  constexpr std::size_t kCommunicators = 64;
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket, Transport::tcp);
  const bool shared = config.transport == Transport::shm;
  const std::size_t pair = (shared ? 2U : 10U) << 10, communicator = (shared ? 6U : 5U) << 10;
  const std::size_t once = (shared ? 4U : 2U) << 10;  // with the first pair
  const int size = GENERATE(2, 8);
  CAPTURE(to_string(config.transport), size);
  std::barrier all(size);  // of the threads: what else they do takes memory
  run_ranks(
      size,
      [&](Communicator& world) {
        const auto others = static_cast<std::size_t>(world.size() - 1);
        const auto added_by_each = [&](const auto& step) {
          all.arrive_and_wait();
          const std::size_t before = heap_bytes();
          all.arrive_and_wait();
          step();
          all.arrive_and_wait();
          const std::size_t after = heap_bytes();
          all.arrive_and_wait();
          return (after - before) / (others + 1);
        };
        const std::size_t pairs = added_by_each([&] {
          for (int other = 0; other < world.size(); ++other) {
            if (other == world.rank()) continue;
            const int mine = 1;
            int theirs = 0;
            world.sendrecv(std::span(&mine, 1), other, std::span(&theirs, 1), other);
          }
        });
        std::vector<Communicator> communicators;
        communicators.reserve(kCommunicators);
        barrier(world);
        const std::size_t made = added_by_each([&] {
          for (std::size_t i = 0; i < kCommunicators; ++i) communicators.push_back(world.dup());
          for (Communicator& each : communicators) barrier(each);
        });
        require(pairs / others > pair / 2 && made / kCommunicators > communicator / 2, "they take less than is said");
        check(pairs, others * pair + once, "pairs");
        check(made / kCommunicators, communicator, "a communicator");
      },
      config);
}

TEST_CASE("of the scratch of long calls the last is kept, and no more than 256 MiB beside", "[runtime][memory]") {
  run_ranks(1, [](Communicator& world) {
    detail::Engine& engine = *CommunicatorAccess::engine(world);
    const auto give = [&](const std::vector<std::size_t>& mebibytes) {
      std::vector<std::byte*> taken;
      for (const std::size_t size : mebibytes) taken.push_back(engine.take_scratch(size << 20));
      for (std::size_t i = 0; i < taken.size(); ++i) engine.give_scratch(taken[i], mebibytes[i] << 20);
    };
    const std::size_t before = heap_bytes();
    const auto kept = [&] { return (heap_bytes() - before) >> 20; };
    give({64, 64, 128});
    require(kept() == 256, "all are kept");
    give({128, 64});
    require(kept() == 256, "they are used again");
    give({32});
    check(kept(), 256, "another");
    give({1024});
    require(kept() == 1024, "the last is kept, however long");
    give({1});
    check(kept(), 256, "beside others");
    engine.give_scratch(nullptr, 0);  // there was none to be had
    std::byte* const last = engine.take_scratch(1);
    require(last != nullptr, "memory that there is");
    engine.give_scratch(last, 1);
  });
}
