#include "runtime/hub.hpp"

#include <chrono>
#include <deque>

#include <rondo/error.hpp>

#include "tests/runtime/hub_client.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;
using Kind = Notice::Kind;

namespace {

/// A hub and its ranks on adopted connections, all on this thread.
struct Job {
  explicit Job(int size, const std::function<void(Hub::Job&)>& change = {}) : hub(context, plan(size, change)) {
    for (int rank = 0; rank < size; ++rank) ranks.push_back(HubClient::adopted(context, hub, rank));
  }

  static Hub::Job plan(int size, const std::function<void(Hub::Job&)>& change) {
    Hub::Job job;
    job.id = "job-7";
    job.attempt = 1;
    job.size = size;
    job.key = JobKey::random();
    job.limits.end_grace = 10ms;
    if (change) change(job);
    return job;
  }

  void start() {
    for (auto& rank : ranks) rank.expect<Welcome>();
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].tell(Join{"address " + std::to_string(i), 0});
    for (auto& rank : ranks) rank.expect<Table>();
  }

  asio::io_context context{1};
  Hub hub;
  std::deque<HubClient> ranks;
};

Notice notice_of(Kind kind) {
  Notice notice;
  notice.kind = kind;
  return notice;
}

Notice failed(std::uint64_t communicator, const std::string& text) {
  Notice notice = notice_of(Kind::failed);
  notice.communicator = communicator;
  notice.number = 5;
  notice.code = Errc::timed_out;
  notice.text = text;
  return notice;
}

Notice stalled(std::uint64_t number, rondo::Collective collective, std::vector<Notice::Awaited> awaited = {}) {
  Notice notice = notice_of(Kind::stalled);
  notice.awaited = std::move(awaited);
  notice.communicator = 9;
  notice.number = number;
  notice.call.collective = collective;
  return notice;
}

}  // namespace

TEST_CASE("the hub speaks first on adopted connections", "[runtime][hub]") {
  Job job(2);
  const auto welcome = job.ranks[1].expect<Welcome>();
  CHECK(welcome.rank == 1);
  CHECK(welcome.size == 2);
  CHECK(welcome.job_id == "job-7");
  CHECK(welcome.attempt == 1);
  CHECK(welcome.key.present);
}

TEST_CASE("when all have joined, all get everybody's addresses", "[runtime][hub]") {
  Job job(3);
  for (auto& rank : job.ranks) rank.expect<Welcome>();
  for (int i = 0; i < 3; ++i) job.ranks[static_cast<std::size_t>(i)].tell(Join{"address " + std::to_string(i), 0});
  for (auto& rank : job.ranks) {
    CHECK(rank.expect<Table>().addresses == std::vector<std::string>{"address 0", "address 1", "address 2"});
  }
}

TEST_CASE("past the deadline every rank hears who never came", "[runtime][hub]") {
  Job job(6, [](Hub::Job& plan) { plan.deadline = 20ms; });
  for (auto& rank : job.ranks) rank.expect<Welcome>();
  job.ranks[0].tell(Join{"", 0});
  job.ranks[2].tell(Join{"", 0});
  for (auto& rank : job.ranks) {
    const auto notice = rank.expect<Notice>();
    CHECK(notice.kind == Kind::abort);
    CHECK(notice.code == Errc::bootstrap_failed);
    CHECK_THAT(notice.text, ContainsSubstring("not all of 6 ranks joined within 0.02 s; never came: ranks 1, 3 to 5"));
  }
}

TEST_CASE("the rank with the least patience decides when all hear who never came", "[runtime][hub]") {
  Job job(3);
  for (auto& rank : job.ranks) rank.expect<Welcome>();
  job.ranks[0].tell(Join{"", 60'000});
  job.ranks[2].tell(Join{"", 20});
  for (auto& rank : job.ranks) CHECK_THAT(rank.expect<Notice>().text, ContainsSubstring("0.02 s; never came: rank 1"));
}

TEST_CASE("the deadline counts from the first join", "[runtime][hub]") {
  // A program may work for long before it initialises: nobody waits for it yet.
  Job job(1, [](Hub::Job& plan) { plan.deadline = 0ms; });
  job.ranks[0].expect<Welcome>();
  job.context.restart();
  job.context.run_for(5ms);
  CHECK_FALSE(job.hub.failure());
}

TEST_CASE("a connection that ends without goodbye is a dead rank", "[runtime][hub]") {
  Job job(3);
  job.start();
  job.ranks[1].close();
  for (const std::size_t survivor : {0u, 2u}) {
    const auto notice = job.ranks[survivor].expect<Notice>();
    CHECK(notice.kind == Kind::dead);
    CHECK(notice.rank == 1);
    CHECK(notice.code == Errc::peer_failed);
    CHECK_THAT(notice.text, ContainsSubstring("ended without a goodbye"));
  }
  CHECK_FALSE(job.hub.finished());
}

TEST_CASE("the launcher's word on a rank's end is the cause, before or after the connection's end", "[runtime][hub]") {
  const bool connection_first = GENERATE(true, false);
  Job job(2, [](Hub::Job& plan) { plan.limits.end_grace = 10s; });
  job.start();
  if (connection_first) {
    job.ranks[1].close();
    job.context.restart();
    job.context.poll();
  }
  job.hub.report_end(1, "killed by SIGKILL");
  job.ranks[1].close();
  CHECK(job.ranks[0].expect<Notice>().text == "killed by SIGKILL");
}

TEST_CASE("a goodbye that still lies in the socket counts when the launcher reports the end", "[runtime][hub]") {
  Job job(2);
  job.start();
  job.ranks[1].tell(notice_of(Kind::goodbye));
  job.hub.report_end(1, "exited with status 0");
  CHECK(job.ranks[0].expect<Notice>().kind == Kind::left);
}

TEST_CASE("who says goodbye has left, and all goodbyes finish the job", "[runtime][hub]") {
  Job job(2);
  job.start();
  job.ranks[1].tell(notice_of(Kind::goodbye));
  job.ranks[1].close();
  const auto notice = job.ranks[0].expect<Notice>();
  CHECK(notice.kind == Kind::left);
  CHECK(notice.rank == 1);
  CHECK_FALSE(job.hub.finished());
  job.ranks[0].tell(notice_of(Kind::goodbye));
  run_until(job.context, [&] { return job.hub.finished(); });
  CHECK_FALSE(job.hub.failure());
}

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
    CHECK_THAT(notice.text,
               ContainsSubstring("rank 0 called all_reduce") && ContainsSubstring("rank 2 called broadcast"));
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

TEST_CASE("who has not come to a call is told to the ranks stuck in it", "[runtime][hub]") {
  Job job(4);
  job.start();
  const auto broadcast = rondo::Collective::broadcast;
  // What the communicator calls 10 is rank 0 of the world, and so on.
  job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
  job.ranks[1].tell(stalled(7, broadcast, {{12, 2}, {13, 3}}));
  Notice elsewhere = stalled(2, rondo::Collective::barrier);
  elsewhere.communicator = 3;
  job.ranks[3].tell(elsewhere);
  job.hub.report_end(2, "a marker");  // by when all that came before is heard
  for (auto& rank : {&job.ranks[0], &job.ranks[1], &job.ranks[3]}) rank->expect<Notice>();

  SECTION("when they ask again") {
    job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
    const auto notice = job.ranks[0].expect<Notice>();
    CHECK(notice.kind == Kind::absent);
    CHECK(notice.communicator == 9);
    CHECK(notice.number == 7);
    CHECK(notice.text == "; ranks 12, 13 have not come to it; rank 13 waits in barrier() #2 of another communicator");
  }
  SECTION("and when they give up") {
    Notice end = failed(9, "it took too long");
    end.number = 7;
    end.awaited = {{11, 1}};
    job.ranks[0].tell(end);
    CHECK_THAT(job.ranks[1].expect<Notice>().text, ContainsSubstring("it took too long; ranks 12, 13 have not come"));
  }
  SECTION("but not the rank that gives up, which may have come too late to count as stuck") {
    Notice end = failed(9, "it took too long");
    end.number = 7;
    end.awaited = {{12, 2}};
    job.ranks[3].tell(end);
    CHECK(job.ranks[0].expect<Notice>().text == "it took too long; rank 12 has not come to it");
  }
  SECTION("also where the absent rank gave up elsewhere a moment ago") {
    job.ranks[3].tell(failed(3, "no luck"));
    Notice resumed = notice_of(Kind::resumed);
    resumed.communicator = 3;
    job.ranks[3].tell(resumed);
    CHECK(job.ranks[3].expect<Notice>().text == "no luck");
    job.ranks[3].tell(failed(4, "a marker"));
    CHECK(job.ranks[3].expect<Notice>().text == "a marker");
    CHECK(job.ranks[0].expect<Notice>().text == "no luck");
    CHECK(job.ranks[0].expect<Notice>().text == "a marker");
    job.ranks[0].tell(stalled(7, broadcast, {{11, 1}}));
    CHECK(job.ranks[0].expect<Notice>().text ==
          "; ranks 12, 13 have not come to it; rank 13 gave up barrier() #2 of another communicator");
  }
  SECTION("but not who has gone on since") {
    Notice resumed = notice_of(Kind::resumed);
    resumed.communicator = 3;
    job.ranks[3].tell(resumed);
    job.ranks[3].tell(stalled(7, broadcast, {{10, 0}}));
    job.ranks[3].tell(stalled(7, broadcast, {{10, 0}}));
    CHECK(job.ranks[3].expect<Notice>().text == "; rank 12 has not come to it");
  }
}

TEST_CASE("a rank's abort ends the job for all, with its words", "[runtime][hub]") {
  Job job(2);
  job.start();
  Notice abort = notice_of(Kind::abort);
  abort.text = "out of cheese";
  job.ranks[1].tell(abort);
  job.ranks[1].close();
  const auto notice = job.ranks[0].expect<Notice>();
  CHECK(notice.kind == Kind::abort);
  CHECK(notice.rank == 1);
  CHECK(notice.text == "out of cheese");
  REQUIRE(job.hub.failure());
  CHECK(job.hub.failure()->text == "out of cheese");
}

TEST_CASE("the launcher's abort reaches all", "[runtime][hub]") {
  Job job(2);
  job.start();
  job.hub.abort("interrupted");
  for (auto& rank : job.ranks) CHECK(rank.expect<Notice>().text == "interrupted");
}

TEST_CASE("a rank that dies before all have joined fails the start of all", "[runtime][hub]") {
  Job job(3);
  for (auto& rank : job.ranks) rank.expect<Welcome>();
  job.ranks[0].tell(Join{"", 0});
  job.hub.report_end(1, "exited with status 3");
  for (const std::size_t survivor : {0u, 2u}) {
    const auto notice = job.ranks[survivor].expect<Notice>();
    CHECK(notice.kind == Kind::abort);
    CHECK(notice.code == Errc::peer_failed);
    CHECK_THAT(notice.text, ContainsSubstring("rank 1 ended before all ranks had joined: exited with status 3"));
  }
}

TEST_CASE("a rank that does not read is given up, and keeps nobody else waiting", "[runtime][hub]") {
  Job job(3, [](Hub::Job& plan) { plan.limits.unsent_bytes = 64 << 10; });
  job.start();
  const std::string text(4000, 'x');
  for (std::uint64_t communicator = 1;; ++communicator) {
    REQUIRE(communicator < 10'000);
    job.ranks[0].tell(failed(communicator, text));
    // Rank 2 reads nothing, rank 1 everything.
    const auto notice = job.ranks[1].expect<Notice>();
    job.ranks[0].next();
    if (notice.kind == Kind::dead) {
      CHECK(notice.rank == 2);
      CHECK_THAT(notice.text, ContainsSubstring("does not read"));
      break;
    }
  }
}

TEST_CASE("what no rank sends makes its sender a dead rank, and nothing else", "[runtime][hub]") {
  Job job(3);
  job.start();
  SECTION("garbage") { job.ranks[1].send(std::string(64, '\xff')); }
  SECTION("the hub's own messages") { job.ranks[1].tell(Table{{"a"}}); }
  SECTION("the hub's own notices") { job.ranks[1].tell(notice_of(Kind::dead)); }
  SECTION("a second join") { job.ranks[1].tell(Join{"again", 0}); }
  const auto notice = job.ranks[0].expect<Notice>();
  CHECK(notice.kind == Kind::dead);
  CHECK(notice.rank == 1);
  CHECK_THAT(notice.text, ContainsSubstring("control message: got"));
}

TEST_CASE("a port in use is an error that names it", "[runtime][hub]") {
  asio::io_context context(1);
  Hub first(context, Job::plan(2, {}));
  Hub second(context, Job::plan(2, {}));
  const auto address = split_host_port(first.listen_tcp("127.0.0.1", 0), "test");
  try {
    second.listen_tcp("127.0.0.1", address.port);
    FAIL("listened twice");
  } catch (const rondo::Error& error) {
    CHECK(error.code() == Errc::address_in_use);
    CHECK_THAT(error.what(), ContainsSubstring("port " + std::to_string(address.port) + " of 127.0.0.1"));
  }
}

TEST_CASE("the wildcard and foreign addresses are not listened on", "[runtime][hub]") {
  asio::io_context context(1);
  Hub hub(context, Job::plan(2, {}));
  for (const char* host : {"0.0.0.0", "::", "192.0.2.77"}) {
    try {
      hub.listen_tcp(host, 0);
      FAIL("listened on " << host);
    } catch (const rondo::Error& error) {
      CHECK(error.code() == Errc::bad_configuration);
    }
  }
}

TEST_CASE("a hub may go while its context lives on", "[runtime][hub]") {
  asio::io_context context(1);
  {
    Hub hub(context, Job::plan(2, {}));
    hub.listen_tcp("127.0.0.1", 0);
    HubClient rank = HubClient::adopted(context, hub, 0);
    rank.expect<Welcome>();
    rank.tell(Join{"", 0});
    rank.close();
  }
  context.restart();
  context.run();
}
