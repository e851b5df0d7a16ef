#include "collectives/arguments.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;
using rondo::detail::CollectiveCall;

namespace {

/// The text of the error for this call as rank 1 of 4; empty: none.
std::string complaint(const CollectiveCall& call) {
  try {
    detail::check_arguments(call, 1, 4);
    return {};
  } catch (const Error& error) {
    CHECK(error.code() == Errc::invalid_argument);
    CHECK(error.rank() == 1);
    CHECK(error.operation() == to_string(call.collective));
    return error.cause();
  }
}

/// Spans over one array of 64 ints, wherever a case wants them.
struct Memory {
  std::vector<int> ints = std::vector<int>(64);
  std::span<int> at(std::size_t begin, std::size_t count) { return std::span(ints).subspan(begin, count); }
};

CollectiveCall call(Collective collective, std::span<const int> in, std::span<int> out, int root = -1) {
  return detail::rooted(detail::call_on(collective, in, out, {}), root);
}

CollectiveCall in_place(Collective collective, std::span<int> inout, int root = -1) {
  return detail::rooted(detail::in_place_call(collective, inout, {}), root);
}

using Counts = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a root must be a rank", "[collectives][arguments]") {
  Memory memory;
  for (const auto collective : {Collective::reduce, Collective::broadcast, Collective::scatter, Collective::gather}) {
    for (const int root : {-1, 4, 1000}) {
      CHECK(complaint(in_place(collective, memory.at(0, 8), root)) ==
            "root is rank " + std::to_string(root) + ", wanted 0 to 3");
    }
  }
}

TEST_CASE("a timeout is more than 0, or none", "[collectives][arguments]") {
  Memory memory;
  CollectiveCall timed = in_place(Collective::all_reduce, memory.at(0, 8));
  for (const int seconds : {0, -2}) {
    timed.options.timeout = std::chrono::seconds(seconds);
    CHECK(complaint(timed) == "the timeout is " + std::to_string(seconds) + " s, wanted more than 0");
  }
  timed.options.timeout = std::chrono::seconds(1);
  CHECK(complaint(timed).empty());
}

TEST_CASE("in and out have sizes that fit each other and the ranks", "[collectives][arguments]") {
  Memory m;
  using C = Collective;
  CHECK(complaint(call(C::all_reduce, m.at(0, 8), m.at(8, 7))) == "out has 7 elements, wanted 8: as many as in");
  CHECK(complaint(call(C::reduce, m.at(0, 8), m.at(8, 9), 1)) == "out has 9 elements, wanted 8: as many as in");
  CHECK(complaint(call(C::reduce, m.at(0, 8), m.at(8, 3), 0)).empty());
  CHECK(complaint(call(C::scatter, m.at(0, 11), m.at(20, 3), 1)) ==
        "in has 11 elements, wanted 12: 3 for each of 4 ranks");
  CHECK(complaint(call(C::scatter, {}, m.at(20, 3), 0)).empty());
  CHECK(complaint(call(C::gather, m.at(20, 3), m.at(0, 13), 1)) ==
        "out has 13 elements, wanted 12: 3 for each of 4 ranks");
  CHECK(complaint(call(C::gather, m.at(20, 3), {}, 2)).empty());
  CHECK(complaint(call(C::all_gather, m.at(20, 3), m.at(0, 3))) ==
        "out has 3 elements, wanted 12: 3 for each of 4 ranks");
  CHECK(complaint(in_place(C::all_gather, m.at(0, 10))) ==
        "inout has 10 elements, wanted a multiple of 4, the number of ranks");
  CHECK(complaint(call(C::reduce_scatter, m.at(0, 8), m.at(20, 3))) ==
        "in has 8 elements, wanted 12: 3 for each of 4 ranks");
  CHECK(complaint(in_place(C::reduce_scatter, m.at(0, 9))) ==
        "inout has 9 elements, wanted a multiple of 4, the number of ranks");
  CHECK(complaint(call(C::all_to_all, m.at(0, 10), m.at(20, 10))) ==
        "in has 10 elements, wanted a multiple of 4, the number of ranks");
  CHECK(complaint(call(C::all_to_all, m.at(0, 8), m.at(20, 12))) == "out has 12 elements, wanted 8: as many as in");
}

TEST_CASE("counts name a length for each rank", "[collectives][arguments]") {
  Memory m;
  const Counts three{1, 2, 3};
  const Counts four{1, 2, 3, 4};
  CHECK(complaint(detail::by_counts(call(Collective::all_gather, m.at(20, 2), m.at(0, 6)), three)) ==
        "counts has 3 entries, wanted 4, one for each rank");
  CHECK(complaint(detail::by_counts(call(Collective::all_gather, m.at(20, 1), m.at(0, 10)), four)) ==
        "in has 1 elements, wanted 2: 2 for rank 1");
  CHECK(complaint(detail::by_counts(call(Collective::all_gather, m.at(20, 2), m.at(0, 9)), four)) ==
        "out has 9 elements, wanted 10: the sum of counts");
  CHECK(complaint(detail::by_counts(call(Collective::all_gather, m.at(20, 2), m.at(0, 10)), four)).empty());
  CHECK(complaint(detail::by_counts(call(Collective::all_to_all, m.at(0, 10), m.at(20, 6)), four, three)) ==
        "recv_counts has 3 entries, wanted 4, one for each rank");
  const Counts other{1, 5, 3, 4};
  CHECK(complaint(detail::by_counts(call(Collective::all_to_all, m.at(0, 10), m.at(20, 13)), four, other)) ==
        "send_counts[1] is 2 and recv_counts[1] is 5, wanted the same: rank 1 is the caller");
}

TEST_CASE("a negative count is told as such", "[collectives][arguments]") {
  Memory m;
  CollectiveCall negative = in_place(Collective::all_reduce, m.at(0, 1));
  negative.out_count = static_cast<std::size_t>(-1);
  CHECK_THAT(complaint(std::move(negative)), Catch::Matchers::ContainsSubstring("was it negative (-1)?"));

  const Counts counts{1, static_cast<std::size_t>(-2), 3, 4};
  CHECK_THAT(complaint(detail::by_counts(call(Collective::gather, m.at(0, 1), {}, 0), counts)),
             Catch::Matchers::ContainsSubstring("was it negative (-2)?"));
}

TEST_CASE("a buffer that has elements has an address, where it is read or written", "[collectives][arguments]") {
  Memory m;
  using C = Collective;
  const std::span<int> nowhere(static_cast<int*>(nullptr), 8);
  CHECK(complaint(in_place(C::broadcast, nowhere, 0)) == "inout of 8 elements is at no address (nullptr)");
  CHECK(complaint(call(C::all_reduce, nowhere, m.at(0, 8))) == "in of 8 elements is at no address (nullptr)");
  CHECK(complaint(call(C::all_reduce, m.at(0, 8), nowhere)) == "out of 8 elements is at no address (nullptr)");
  CHECK(complaint(call(C::reduce, m.at(0, 8), nowhere, 0)).empty());
  CHECK(complaint(call(C::reduce, m.at(0, 8), nowhere, 1)) == "out of 8 elements is at no address (nullptr)");
  CHECK(complaint(call(C::scatter, nowhere, m.at(0, 2), 0)).empty());
  CHECK(complaint(call(C::scatter, nowhere, m.at(0, 2), 1)) == "in of 8 elements is at no address (nullptr)");
  CHECK(complaint(call(C::gather, m.at(0, 2), nowhere, 0)).empty());
  CHECK(complaint(call(C::all_to_all, {}, {})).empty());
}

TEST_CASE("in and out are one buffer, the caller's own block, or apart", "[collectives][arguments]") {
  Memory m;
  using C = Collective;
  const auto overlap = Catch::Matchers::ContainsSubstring("in and out overlap by ");
  CHECK(complaint(call(C::all_reduce, m.at(0, 8), m.at(0, 8))).empty());
  CHECK(complaint(call(C::all_reduce, m.at(0, 8), m.at(8, 8))).empty());
  CHECK_THAT(complaint(call(C::all_reduce, m.at(0, 8), m.at(1, 8))), overlap);
  CHECK_THAT(complaint(call(C::reduce, m.at(4, 8), m.at(0, 8), 1)), overlap);
  CHECK(complaint(call(C::reduce, m.at(4, 8), m.at(0, 8), 0)).empty());

  CHECK(complaint(call(C::scatter, m.at(0, 12), m.at(3, 3), 1)).empty());
  CHECK_THAT(complaint(call(C::scatter, m.at(0, 12), m.at(0, 3), 1)), overlap);
  CHECK(complaint(call(C::gather, m.at(3, 3), m.at(0, 12), 1)).empty());
  CHECK_THAT(complaint(call(C::gather, m.at(2, 3), m.at(0, 12), 1)), overlap);
  CHECK(complaint(call(C::all_gather, m.at(3, 3), m.at(0, 12))).empty());
  CHECK_THAT(complaint(call(C::all_gather, m.at(11, 3), m.at(0, 12))), overlap);
  CHECK(complaint(call(C::reduce_scatter, m.at(0, 12), m.at(3, 3))).empty());
  CHECK_THAT(complaint(call(C::reduce_scatter, m.at(0, 12), m.at(0, 3))), overlap);
  CHECK(complaint(call(C::all_to_all, m.at(0, 8), m.at(0, 8))).empty());
  CHECK_THAT(complaint(call(C::all_to_all, m.at(0, 8), m.at(7, 8))), overlap);

  const Counts counts{2, 2, 2, 2};
  CHECK_THAT(complaint(detail::by_counts(call(C::all_to_all, m.at(0, 8), m.at(0, 8)), counts, counts)),
             Catch::Matchers::ContainsSubstring("one buffer"));
}

TEST_CASE("the text of an overlap names both buffers", "[collectives][arguments]") {
  Memory m;
  const std::string text = complaint(call(Collective::all_reduce, m.at(0, 8), m.at(6, 8)));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("by 8 bytes (in: 32 bytes at 0x"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("wanted one buffer for both or no overlap"));
}

TEST_CASE("a call with a communicator that is inert says so", "[collectives][arguments]") {
  Communicator inert;
  std::vector<int> data(4);
  try {
    all_reduce(inert, std::span(data), sum);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::not_initialized);
    CHECK(error.operation() == "all_reduce");
  }
  CHECK_THROWS_AS(barrier(inert), Error);
  CHECK_THROWS_AS((void)ibroadcast(inert, std::span(data), 0), Error);
}
