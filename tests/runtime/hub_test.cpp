#include "runtime/hub.hpp"

#include <chrono>

#include <rondo/error.hpp>

#include "tests/runtime/adopted_job.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;
using rondo::testing::failed;
using rondo::testing::notice_of;
using Job = rondo::testing::AdoptedJob;
using Kind = Notice::Kind;

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
