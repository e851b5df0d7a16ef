// Where the hub knows the ranks to be, and what it makes of those that wait for each other.

#include <string>
#include <vector>

#include "tests/runtime/adopted_job.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using rondo::testing::failed;
using rondo::testing::notice_of;
using Job = rondo::testing::AdoptedJob;
using Kind = Notice::Kind;

namespace {

Notice waits(std::uint64_t number, const std::string& call, const std::vector<int>& ranks) {
  Notice notice = notice_of(Kind::waits);
  notice.number = number;
  notice.text = call;
  for (const int rank : ranks) notice.awaited.push_back({rank, rank});
  return notice;
}

Notice over(std::uint64_t number) { return waits(number, "", {}); }

/// What the hub answers when a rank tells it again; empty: nothing, as what comes next is a marker.
std::string answer(Job& job, int rank, const Notice& notice) {
  static std::uint64_t markers = 100;
  auto& client = job.ranks[static_cast<std::size_t>(rank)];
  client.tell(notice);
  client.tell(failed(++markers, "a marker"));
  std::string text;
  for (auto told = client.expect<Notice>(); told.communicator != markers; told = client.expect<Notice>()) {
    if (told.kind != Kind::circle) continue;
    CHECK(told.number == notice.number);
    text = told.text;
  }
  return text;
}

/// The hub has heard all that this rank has told it.
void heard(Job& job, int rank) { (void)answer(job, rank, notice_of(Kind::resumed)); }

struct Started : Job {
  explicit Started(int size) : Job(size) { start(); }
};

}  // namespace

TEST_CASE("who waits for one that waits for him hears in which call, once he tells again", "[runtime][hub]") {
  Started job(3);
  const Notice mine = waits(4, "recv from rank 1 with tag 7", {1});
  CHECK(answer(job, 0, mine) == "");
  CHECK(answer(job, 0, mine) == "");  // rank 1 is somewhere else
  const Notice theirs = waits(9, "recv from rank 0 with tag 8", {0});
  CHECK(answer(job, 1, theirs) == "");
  CHECK(answer(job, 1, theirs) == "; rank 0 waits in recv from rank 1 with tag 7");
  CHECK(answer(job, 0, mine) == "; rank 1 waits in recv from rank 0 with tag 8");
  // Whom nobody waits for is none of them, though he waits in vain.
  const Notice third = waits(1, "recv from rank 0 with tag 9", {0});
  CHECK(answer(job, 2, third) == "");
  CHECK(answer(job, 2, third) == "");
  CHECK(job.hub.where_ranks_wait() == std::vector<std::string>{"recv from rank 1 with tag 7",
                                                               "recv from rank 0 with tag 8",
                                                               "recv from rank 0 with tag 9"});
  CHECK(answer(job, 1, over(9)) == "");
  CHECK(answer(job, 0, mine) == "");
  CHECK(job.hub.where_ranks_wait()[1] == "");
}

TEST_CASE("a circle is told by the shortest way through it", "[runtime][hub]") {
  Started job(12);
  for (int rank = 1; rank < 12; ++rank) {
    job.ranks[static_cast<std::size_t>(rank)].tell(
        waits(1, "recv from rank " + std::to_string((rank + 1) % 12), {(rank + 1) % 12}));
    heard(job, rank);
  }
  const Notice far = waits(1, "recv from rank 1", {1});
  CHECK(answer(job, 0, far) == "");
  CHECK(answer(job, 0, far) ==
        "; rank 1 waits in recv from rank 2; rank 2 waits in recv from rank 3; rank 3 waits in recv from rank 4; "
        "rank 4 waits in recv from rank 5; rank 5 waits in recv from rank 6; rank 6 waits in recv from rank 7; "
        "rank 7 waits in recv from rank 8; rank 8 waits in recv from rank 9; and so on, 12 ranks in all");
  const Notice near = waits(1, "recv from any rank", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(answer(job, 0, near) == "; rank 11 waits in recv from rank 0");
}

TEST_CASE("nobody is told of a circle as long as one in reach may go on", "[runtime][hub]") {
  Started job(3);
  const Notice first = waits(1, "recv from any rank with tag 0", {1, 2});
  const Notice second = waits(1, "recv from rank 0 with tag 0", {0});
  heard(job, 0);
  job.ranks[0].tell(first);
  job.ranks[1].tell(second);
  heard(job, 0);
  heard(job, 1);
  SECTION("a rank that is in no call") {
    CHECK(answer(job, 0, first) == "");
    SECTION("unless that has left") {
      job.ranks[2].tell(notice_of(Kind::goodbye));
      while (job.ranks[0].expect<Notice>().kind != Kind::left) {
      }
      CHECK(answer(job, 0, first) == "; rank 1 waits in recv from rank 0 with tag 0");
    }
  }
  SECTION("a rank whose message is under way") {
    job.ranks[2].tell(waits(1, "recv from rank 0 with tag 5", {}));
    heard(job, 2);
    CHECK(answer(job, 0, first) == "");
  }
  SECTION("another thread of a rank in the circle") {
    job.ranks[2].tell(waits(1, "recv from rank 1 with tag 5", {1}));
    heard(job, 2);
    CHECK(answer(job, 0, first) == "; rank 1 waits in recv from rank 0 with tag 0");
    CHECK(answer(job, 1, waits(2, "send 9 bytes to rank 2 with tag 0", {})) == "");
    CHECK(answer(job, 0, first) == "");
  }
}

TEST_CASE("who waits for himself hears that", "[runtime][hub]") {
  Started job(2);
  const Notice mine = waits(1, "recv from rank 0 with tag 0", {0});
  CHECK(answer(job, 0, mine) == "");
  CHECK(answer(job, 0, mine) == "; that is this rank itself");
}

TEST_CASE("who has not come to a collective is told to wait in a message", "[runtime][hub]") {
  Started job(2);
  job.ranks[1].tell(waits(1, "recv from rank 0 with tag 3", {0}));
  heard(job, 1);
  Notice stalled = notice_of(Kind::stalled);
  stalled.communicator = 9;
  stalled.number = 2;
  stalled.call.collective = rondo::Collective::barrier;
  stalled.awaited = {{11, 1}};
  job.ranks[0].tell(stalled);
  job.ranks[0].tell(stalled);
  auto told = job.ranks[0].expect<Notice>();
  while (told.kind != Kind::absent) told = job.ranks[0].expect<Notice>();
  CHECK(told.text ==
        "; rank 11 (rank 1 of the world) has not come to it; rank 11 (rank 1 of the world) waits in recv from rank 0 "
        "with "
        "tag 3");
}

TEST_CASE("what a rank says of its waits takes so much memory at the most, and names no rank that there is not",
          "[runtime][hub]") {
  Started job(2);
  for (std::uint64_t number = 1; number <= 300; ++number) {
    job.ranks[0].tell(waits(number, "recv\x1b", {1, 2, -1}));
    if (number % 20 == 0) heard(job, 0);
  }
  CHECK(job.hub.where_ranks_wait()[0] == "recv\\x1b");
  job.ranks[1].tell(waits(1, "recv from rank 0", {0}));
  heard(job, 1);
  CHECK(answer(job, 0, waits(256, "recv", {1})) == "; rank 1 waits in recv from rank 0");
  CHECK(answer(job, 0, waits(300, "recv", {1})) == "");
}
