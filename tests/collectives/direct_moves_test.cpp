#include "collectives/direct_moves.hpp"

#include <cstddef>

#include "tests/support/catch.hpp"

using namespace rondo;
using rondo::detail::DirectMoves;

namespace {

constexpr std::size_t kTotal = 100;
constexpr int kRanks = 4;

std::size_t touched(Collective collective, bool in_place = false) {
  Plan plan;
  plan.collective = collective;
  plan.blocks = plan.recv_blocks = Blocks::even(kTotal, kRanks);
  return DirectMoves(plan, 1, kRanks, in_place).touched();
}

}  // namespace

TEST_CASE("what ranks touch is what all read and write of their buffers", "[collectives][direct]") {
  CHECK(touched(Collective::all_reduce) == 8 * kTotal);
  CHECK(touched(Collective::all_to_all) == 8 * kTotal);
  CHECK(touched(Collective::reduce) == 5 * kTotal);
  CHECK(touched(Collective::reduce_scatter) == 5 * kTotal);
  CHECK(touched(Collective::all_gather) == 5 * kTotal);
  CHECK(touched(Collective::broadcast) == 4 * kTotal);
  CHECK(touched(Collective::scatter) == 2 * kTotal);
  CHECK(touched(Collective::gather) == 2 * kTotal);
}

TEST_CASE("in place they touch nothing that has not just been read, or but one buffer", "[collectives][direct]") {
  for (const auto collective : {Collective::all_reduce, Collective::all_to_all, Collective::reduce}) {
    CHECK(touched(collective, true) == 0);
  }
  CHECK(touched(Collective::all_gather, true) == 4 * kTotal);
}
