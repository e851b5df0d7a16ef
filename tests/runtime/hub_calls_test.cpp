// What the hub makes of calls that failed, and of ranks that are stuck in one.

#include <utility>
#include <vector>

#include <rondo/error.hpp>

#include "tests/runtime/adopted_job.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;
using rondo::testing::failed;
using rondo::testing::notice_of;
using Job = rondo::testing::AdoptedJob;
using Kind = Notice::Kind;

namespace {

Notice stalled(std::uint64_t number, rondo::Collective collective, std::vector<Notice::Awaited> awaited = {}) {
  Notice notice = notice_of(Kind::stalled);
  notice.awaited = std::move(awaited);
  notice.communicator = 9;
  notice.number = number;
  notice.call.collective = collective;
  return notice;
}

/// The next that is not about the call of another, see `Notice::Kind::stalled`.
template <typename Rank>
Notice told(Rank& rank) {
  for (;;) {
    auto notice = rank.template expect<Notice>();
    if (notice.kind != Kind::stalled) return notice;
  }
}

}  // namespace

TEST_CASE("of several failures of one communicator all hear the first, once", "[runtime][hub]") {
  Job job(3);
  job.start();
  job.ranks[2].tell(failed(9, "first"));
  CHECK(job.ranks[2].expect<Notice>().text == "first");
  job.ranks[0].tell(failed(9, "second"));
  job.ranks[0].tell(failed(10, "another communicator"));
  for (auto& rank : job.ranks) {
    if (&rank != &job.ranks[2]) {
      const auto first = rank.expect<Notice>();
      CHECK(first.kind == Kind::poisoned);
      CHECK(first.rank == 2);
      CHECK(first.number == 5);
      CHECK(first.code == Errc::timed_out);
      CHECK(first.text == "first");
    }
    CHECK(rank.expect<Notice>().text == "another communicator");
  }
}

TEST_CASE("the hub knows with whom the trouble began: not with who only saw a peer fail", "[runtime][hub]") {
  Job job(3);
  job.start();
  CHECK_FALSE(job.hub.origin());
  Notice reaction = failed(8, "rank 1 died");
  reaction.code = Errc::peer_failed;
  job.ranks[0].tell(reaction);
  job.ranks[0].expect<Notice>();
  CHECK_FALSE(job.hub.origin());
  const bool by_end = GENERATE(true, false);
  if (by_end) {
    job.ranks[1].close();
  } else {
    job.ranks[1].tell(failed(9, "first"));
  }
  run_until(job.context, [&] { return job.hub.origin().has_value(); });
  job.ranks[2].tell(failed(10, "later"));
  while (job.ranks[0].expect<Notice>().text != "later") continue;
  CHECK(job.hub.origin()->rank == 1);
  CHECK(job.hub.origin()->text == (by_end ? "" : "first"));
}

TEST_CASE("ranks stuck in different calls are told both", "[runtime][hub]") {
  Job job(3);
  job.start();
  job.ranks[2].tell(stalled(7, rondo::Collective::broadcast));
  job.ranks[0].tell(stalled(6, rondo::Collective::reduce));
  job.ranks[0].tell(stalled(7, rondo::Collective::all_reduce));
  for (auto& rank : job.ranks) {
    const auto notice = rank.expect<Notice>();
    CHECK(notice.kind == Kind::poisoned);
    CHECK(notice.code == Errc::collective_mismatch);
    CHECK(notice.communicator == 9);
    CHECK(notice.number == 7);
    CHECK_THAT(notice.text, ContainsSubstring("rank 0 of the world called all_reduce") &&
                                ContainsSubstring("rank 2 of the world called broadcast"));
  }
}

TEST_CASE("ranks stuck in the same call that were not in the same before are told those", "[runtime][hub]") {
  Job job(2);
  job.start();
  using rondo::Collective;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Notice notice = stalled(7, Collective::broadcast);
    for (const Collective before : {Collective::barrier, rank == 0 ? Collective::gather : Collective::scatter}) {
      notice.before.emplace_back().collective = before;
    }
    job.ranks[rank].tell(notice);
  }
  for (auto& rank : job.ranks) {
    const auto notice = told(rank);
    CHECK(notice.kind == Kind::poisoned);
    CHECK(notice.number == 5);
    CHECK_THAT(notice.text, ContainsSubstring("rank 0 of the world called gather") &&
                                ContainsSubstring("rank 1 of the world called scatter"));
  }
}

TEST_CASE("ranks stuck in the same call, or in another operation, are left alone", "[runtime][hub]") {
  Job job(2);
  job.start();
  job.ranks[0].tell(stalled(7, rondo::Collective::broadcast));
  job.ranks[1].tell(stalled(7, rondo::Collective::broadcast));
  job.ranks[1].tell(stalled(8, rondo::Collective::reduce));
  job.ranks[1].tell(failed(1, "marker"));
  CHECK(job.ranks[0].expect<Notice>().text == "marker");
}

TEST_CASE("a call is told to those whom it waits for and who are not stuck in that communicator", "[runtime][hub]") {
  Job job(3);
  job.start();
  job.ranks[0].tell(stalled(7, rondo::Collective::broadcast, {{11, 1}, {12, 2}}));
  for (auto& rank : {&job.ranks[1], &job.ranks[2]}) {
    const auto notice = rank->expect<Notice>();
    CHECK(notice.kind == Kind::stalled);
    CHECK(notice.rank == 0);
    CHECK(notice.communicator == 9);
    CHECK(notice.number == 7);
    CHECK(notice.call.collective == rondo::Collective::broadcast);
    const int member = rank == &job.ranks[1] ? 11 : 12;
    CHECK(notice.awaited == std::vector<Notice::Awaited>{{member, member - 10}});  // of the others it need not hear
  }
  job.ranks[1].tell(stalled(7, rondo::Collective::broadcast, {{12, 2}}));
  job.ranks[2].expect<Notice>();
  job.ranks[2].tell(stalled(7, rondo::Collective::broadcast, {{10, 0}, {11, 1}}));
  job.ranks[2].tell(failed(1, "a marker"));
  for (auto& rank : {&job.ranks[0], &job.ranks[1]}) CHECK(rank->expect<Notice>().text == "a marker");
}

TEST_CASE("a rank that computes is not given up for what those who wait for it have to say", "[runtime][hub]") {
  Job job(3, [](Hub::Job& plan) { plan.limits.unsent_bytes = 64 << 10; });
  job.start();
  for (std::uint64_t number = 1; number <= 4000; ++number) {
    job.ranks[0].tell(stalled(number, rondo::Collective::barrier, {{2, 2}}));
    job.context.restart();
    job.context.poll();
  }
  job.ranks[0].tell(failed(1, "marker"));
  for (auto& rank : job.ranks) CHECK(told(rank).text == "marker");
}

TEST_CASE("who has not come to a call is told to the ranks stuck in it", "[runtime][hub]") {
  Job job(4);
  job.start();
  const auto broadcast = rondo::Collective::broadcast;
  // What the communicator calls 10 is rank 0 of the world, and so on.
  const std::string twelve = "rank 12 (rank 2 of the world)", thirteen = "rank 13 (rank 3 of the world)",
                    absent = "; ranks 12, 13 (ranks 2, 3 of the world) have not come to it";
  job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
  job.ranks[1].tell(stalled(7, broadcast, {{12, 2}, {13, 3}}));
  Notice elsewhere = stalled(2, rondo::Collective::barrier);
  elsewhere.communicator = 3;
  job.ranks[3].tell(elsewhere);
  job.hub.report_end(2, "a marker");  // by when all that came before is heard
  for (auto& rank : {&job.ranks[0], &job.ranks[1], &job.ranks[3]}) told(*rank);

  SECTION("when they ask again") {
    job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
    const auto notice = told(job.ranks[0]);
    CHECK(notice.kind == Kind::absent);
    CHECK(notice.communicator == 9);
    CHECK(notice.number == 7);
    CHECK(notice.text == absent + "; " + thirteen + " waits in barrier() #2 of another communicator");
  }
  SECTION("and when they give up") {
    Notice end = failed(9, "it took too long");
    end.number = 7;
    end.awaited = {{11, 1}};
    job.ranks[0].tell(end);
    CHECK_THAT(told(job.ranks[1]).text, ContainsSubstring("it took too long" + absent));
  }
  SECTION("but not the rank that gives up, which may have come too late to count as stuck") {
    Notice end = failed(9, "it took too long");
    end.number = 7;
    end.awaited = {{12, 2}};
    job.ranks[3].tell(end);
    CHECK(told(job.ranks[0]).text == "it took too long; " + twelve + " has not come to it");
  }
  SECTION("also where the absent rank gave up elsewhere a moment ago") {
    job.ranks[3].tell(failed(3, "no luck"));
    Notice resumed = notice_of(Kind::resumed);
    resumed.communicator = 3;
    job.ranks[3].tell(resumed);
    CHECK(told(job.ranks[3]).text == "no luck");
    job.ranks[3].tell(failed(4, "a marker"));
    CHECK(told(job.ranks[3]).text == "a marker");
    CHECK(told(job.ranks[0]).text == "no luck");
    CHECK(told(job.ranks[0]).text == "a marker");
    job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
    CHECK(told(job.ranks[0]).text == absent + "; " + thirteen + " gave up barrier() #2 of another communicator");
    Notice waits = notice_of(Kind::waits);
    waits.number = 1;
    waits.text = "recv from rank 0";
    job.ranks[3].tell(waits);
    job.ranks[3].tell(failed(5, "a marker"));
    CHECK(told(job.ranks[3]).text == "a marker");
    CHECK(told(job.ranks[0]).text == "a marker");
    job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
    CHECK(told(job.ranks[0]).text == absent + "; " + thirteen + " waits in recv from rank 0");
  }
  SECTION("but not who has gone on since") {
    Notice resumed = notice_of(Kind::resumed);
    resumed.communicator = 3;
    job.ranks[3].tell(resumed);
    job.ranks[3].tell(stalled(7, broadcast, {{10, 0}}));
    job.ranks[3].tell(stalled(7, broadcast, {{10, 0}}));
    CHECK(told(job.ranks[3]).text == "; " + twelve + " has not come to it");
  }
}
