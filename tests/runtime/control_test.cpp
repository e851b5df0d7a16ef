#include "runtime/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <latch>
#include <memory>
#include <optional>

#include <asio/io_context.hpp>

#include "runtime/engine.hpp"
#include "runtime/group.hpp"
#include "runtime/hub.hpp"
#include "tests/runtime/held_peer.hpp"
#include "tests/runtime/rank_threads.hpp"
#include "tests/runtime/watched_rank.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/still.hpp"

using namespace rank_threads;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::HeldLink;
using rondo::testing::NoWaiter;
using rondo::testing::Pair;
using rondo::testing::Receive;
using rondo::testing::SetClock;
using rondo::testing::WatchedRank;

TEST_CASE("a world of 1 needs no hub", "[runtime][control]") {
  Control control(member(0, 1, MeetingPoint{}), patient());
  control.join("me");
  CHECK(control.addresses() == std::vector<std::string>{"me"});
  CHECK(control.descriptor() == -1);
  CHECK_FALSE(control.poll());
  control.tell(Notice{});
  control.goodbye();
}

TEST_CASE("our address towards the hub is known over tcp, and none is needed elsewhere", "[runtime][control]") {
  const MeetingPoint point = GENERATE(by_tcp(), by_name());
  const std::string wanted = point.kind == MeetingPoint::Kind::tcp ? "127.0.0.1" : "";
  std::vector<std::string> seen(2);
  const auto body = [&](int rank) {
    Control control(member(rank, 2, point), patient());
    seen[static_cast<std::size_t>(rank)] = control.local_address();
    control.join("");
    control.goodbye();
  };
  for (const End& end : run({[&] { body(0); }, [&] { body(1); }})) CHECK(end.text == "");
  CHECK(seen == std::vector<std::string>{wanted, wanted});
}

namespace {

/// A launcher's hub on a thread, and one end of each rank's connection.
struct Launcher {
  explicit Launcher(int size) : hub(context, plan(size)) {
    for (int rank = 0; rank < size; ++rank) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw std::runtime_error("socketpair");
      hub.adopt(pair[1], rank);
      inherited.push_back(pair[0]);
    }
    thread = std::thread([this] { context.run(); });
  }
  ~Launcher() { stop(); }
  void stop() {
    context.stop();
    if (thread.joinable()) thread.join();
  }

  static Hub::Job plan(int size) {
    Hub::Job job;
    job.id = "job-7";
    job.size = size;
    job.key = JobKey::random();
    return job;
  }

  Identity identity(int rank) const {
    MeetingPoint point;
    point.kind = MeetingPoint::Kind::descriptor;
    point.descriptor = inherited[static_cast<std::size_t>(rank)];
    return member(rank, static_cast<int>(inherited.size()), point);
  }

  asio::io_context context{1};
  Hub hub;
  std::vector<int> inherited;
  std::thread thread;
};

}  // namespace

TEST_CASE("the launcher's descriptor gives key and job, and is closed to children at once", "[runtime][control]") {
  Launcher launcher(2);
  Control control(launcher.identity(0), patient());
  CHECK(control.key().present);
  CHECK(control.job_id() == "job-7");
  CHECK(control.local_address().empty());
  CHECK((::fcntl(control.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
  ::close(launcher.inherited[1]);
}

TEST_CASE("the environment and the launcher's descriptor must say the same", "[runtime][control]") {
  Launcher launcher(2);
  Identity wrong_rank = launcher.identity(0);
  wrong_rank.rank = 1;
  Identity wrong_job = launcher.identity(1);
  wrong_job.job_id = "job-8";
  for (const Identity& identity : {wrong_rank, wrong_job}) {
    const End end = run({[&] { Control control(identity, patient()); }})[0];
    CHECK(end.code == Errc::bad_configuration);
    CHECK_THAT(end.text, ContainsSubstring("contradiction: the environment says rank 1 of 2 in job"));
  }
}

TEST_CASE("a second process on the launcher's descriptor hears at once that the ranks have met", "[runtime][control]") {
  Launcher launcher(2);
  Descriptor again(::fcntl(launcher.inherited[0], F_DUPFD_CLOEXEC, 0));
  const auto meet = [&](int rank) {
    Control control(launcher.identity(rank), patient());
    control.join("");
    control.goodbye();
  };
  for (const End& end : run({[&] { meet(0); }, [&] { meet(1); }})) CHECK(end.text == "");
  Identity second = launcher.identity(0);
  second.meeting.descriptor = again.release();
  const End end = run({[&] { Control control(second, patient()); }})[0];
  CHECK(end.code == Errc::bad_configuration);
  CHECK_THAT(end.text, ContainsSubstring("rank 0 of this job has met the others already, in an earlier process"));
}

TEST_CASE("a descriptor that is no connection to a launcher is left alone", "[runtime][control]") {
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor other = listen_on({asio::ip::make_address("127.0.0.1"), 0});
  MeetingPoint point;
  point.kind = MeetingPoint::Kind::descriptor;
  for (const int fd : {file.get(), other.get(), 1'000'000}) {
    point.descriptor = fd;
    const End end = run({[&] { Control control(member(0, 2, point), patient()); }})[0];
    CHECK(end.code == Errc::bad_configuration);
    CHECK_THAT(end.text, ContainsSubstring("RONDO_CONTROL_FD: descriptor " + std::to_string(fd)));
  }
  CHECK(::fcntl(file.get(), F_GETFD) >= 0);
  CHECK(::fcntl(other.get(), F_GETFD) >= 0);
}

TEST_CASE("a rank hears of deaths, goodbyes and failures, each once", "[runtime][control]") {
  const MeetingPoint point = by_name();
  std::latch joined(3);
  std::vector<Notice> seen;
  const auto ends = run({[&] {
                           Control control(member(0, 3, point), patient());
                           control.join("");
                           joined.arrive_and_wait();
                           for (int i = 0; i < 3; ++i) seen.push_back(wait_for_notice(control));
                           control.goodbye();
                         },
                         [&] {
                           Control control(member(1, 3, point), patient());
                           control.join("");
                           joined.arrive_and_wait();
                           Notice failed;
                           failed.kind = Notice::Kind::failed;
                           failed.communicator = 5;
                           failed.text = "why";
                           control.tell(failed);
                           wait_for_notice(control);
                           control.goodbye();
                         },
                         [&] {
                           Control control(member(2, 3, point), patient());
                           control.join("");
                           joined.arrive_and_wait();
                           while (wait_for_notice(control).kind != Notice::Kind::left) {
                           }
                         }});
  for (const End& end : ends) CHECK(end.text == "");
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].kind == Notice::Kind::poisoned);
  CHECK(seen[0].text == "why");
  CHECK(seen[1].kind == Notice::Kind::left);
  CHECK(seen[1].rank == 1);
  CHECK(seen[2].kind == Notice::Kind::dead);
  CHECK(seen[2].rank == 2);
}

TEST_CASE("the hub's verdict counts, however late a rank has a core to read it", "[runtime][control]") {
  Launcher launcher(2);
  Control control(launcher.identity(0), patient());
  SetClock clock;
  NoWaiter waiter;
  Engine::Settings settings;
  settings.size = 2;
  Engine engine(settings, clock, waiter, Log());
  engine.use(control);
  Group& group = engine.make_group(7, {0, 1});
  group.report_failure(Error(Errc::timed_out, "rank 0 gave up", {}), {{1, 1}});
  clock.time += 2 * settings.verdict_wait;
  CHECK_FALSE(group.verdict_overdue(clock.now()));  // a deadline has the time to hear for whom it waited
  pollfd answer{control.descriptor(), POLLIN, 0};
  REQUIRE(::poll(&answer, 1, 20'000) == 1);
  clock.time += std::chrono::hours(1);
  CHECK(engine.tick(clock.now()) == 1);
  REQUIRE(group.poisoned());
  CHECK_THROWS_WITH(group.check(), ContainsSubstring("; rank 1 has not come to it"));
  ::close(launcher.inherited[1]);
}

namespace {

/// Of a rank that leaves in order, and has seen a failure.
FrameHeader bye_after_error() {
  FrameHeader bye = Pair::header(FrameKind::bye, 0);
  bye.number = 1;
  return bye;
}

void check_has_left(const Receive& receive) {
  REQUIRE(receive.message.done());
  CHECK_THROWS_WITH(std::rethrow_exception(receive.message.error()),
                    ContainsSubstring("rank 1 has left: it said goodbye"));
}

}  // namespace

TEST_CASE("who leaves without a goodbye, or after a failure, fails only who waits for it where the hub has heard one",
          "[runtime][control]") {
  WatchedRank rank;
  Group& group = rank.engine.make_group(Pair::kGroup, {0, 1, 2});
  Peer& peer = rank.engine.peer(1);
  peer.attach(std::make_unique<HeldLink>());
  const Receive receive(group);
  const bool says_goodbye = GENERATE(false, true);
  const auto leave = [&] {
    if (says_goodbye) return peer.deliver(bye_after_error(), {});
    peer.closed("the process at the other side ended");
  };
  Notice left;
  left.kind = Notice::Kind::left;
  left.rank = 1;
  SECTION("before") {
    rank.tell(left);
    CHECK_FALSE(receive.message.done());  // it may come yet
    leave();
  }
  SECTION("after that") {
    leave();
    CHECK_FALSE(receive.message.done());  // the hub may know more
    rank.tell(left);
  }
  check_has_left(receive);
  rank.pass(2 * rank.engine.settings().verdict_wait);
  CHECK_FALSE(group.failed());
}

TEST_CASE("without a hub, who leaves after a failure is dead for those who have not seen that", "[runtime][control]") {
  Pair pair;
  SECTION("seen") {
    const Receive receive(*pair.group);
    pair.engine.peer_lost(pair.engine.peer(2), "it crashed");
    pair.peer.deliver(bye_after_error(), {});
    check_has_left(receive);
    CHECK_FALSE(pair.group->failed());
  }
  SECTION("not seen") {
    pair.peer.deliver(bye_after_error(), {});
    CHECK_THROWS_WITH(pair.group->check(), ContainsSubstring("rank 1 died: it left after an error"));
  }
}

TEST_CASE("a link awaits nothing of a message that was given up with its communicator, though the verdict is to come",
          "[runtime][control]") {
  Launcher launcher(2);
  Control control(launcher.identity(0), patient());
  Pair pair;
  pair.engine.use(control);
  const Receive receive(*pair.group);
  pair.peer.deliver(Pair::header(FrameKind::rts, 1), {});
  REQUIRE(pair.link->awaits_payload);
  FrameHeader cancel = Pair::header(FrameKind::cancel, pair.link->sent[0].number);
  cancel.bytes = 0;
  cancel.number = 1;  // it failed
  pair.peer.deliver(cancel, {});
  CHECK_FALSE(pair.link->awaits_payload);
  CHECK_FALSE(receive.message.done());
  ::close(launcher.inherited[1]);
}

TEST_CASE("what was announced and given up with its communicator takes no memory, though the verdict is to come",
          "[runtime][control]") {
  Launcher launcher(2);
  Control control(launcher.identity(0), patient());
  Pair pair;
  pair.engine.use(control);
  FrameHeader recall = Pair::header(FrameKind::recall, 1);
  recall.number = 1;  // it failed
  std::optional<Receive> receive;
  SECTION("its receive was there") {
    receive.emplace(*pair.group);
    pair.announce(1);
    pair.peer.deliver(recall, {});
  }
  SECTION("its receive came before it") {
    pair.announce(1);
    receive.emplace(*pair.group);
    pair.peer.deliver(recall, {});
  }
  SECTION("nobody has asked for it") {
    pair.announce(1);
    pair.peer.deliver(recall, {});
    CHECK_FALSE(pair.group->has_unexpected());
  }
  CHECK(pair.free_again(1));
  CHECK_FALSE((receive && receive->message.done()));
  CHECK_FALSE(pair.peer.gone());
  ::close(launcher.inherited[1]);
}

TEST_CASE("the end of rank 0's hub without a goodbye is rank 0's death", "[runtime][control]") {
  const MeetingPoint point = by_name();
  Notice seen;
  const auto ends = run({[&] {
                           Control control(member(0, 2, point), patient());
                           control.join("");
                         },
                         [&] {
                           Control control(member(1, 2, point), patient());
                           control.join("");
                           seen = wait_for_notice(control);
                         }});
  for (const End& end : ends) CHECK(end.text == "");
  CHECK(seen.kind == Notice::Kind::dead);
  CHECK(seen.rank == 0);
}

TEST_CASE("when rank 0 leaves in order the others only hear that", "[runtime][control]") {
  // Whether the hub's thread has read the goodbye when it is told to end is a race: both ways must do.
  for (int round = 0; round < 20; ++round) {
    const MeetingPoint point = by_name();
    std::optional<Notice> after;
    int descriptor = 0;
    const auto ends = run({[&] { meet_and_part(member(0, 2, point), patient()); },
                           [&] {
                             Control control(member(1, 2, point), patient());
                             control.join("address of 1");
                             if (wait_for_notice(control).kind != Notice::Kind::left)
                               throw std::logic_error("not left");
                             while (control.descriptor() >= 0 && !(after = control.poll())) std::this_thread::yield();
                             descriptor = control.descriptor();
                           }});
    for (const End& end : ends) CHECK(end.text == "");
    CHECK_FALSE(after);
    CHECK(descriptor == -1);
  }
}

TEST_CASE("the end of the launcher is the end of the job", "[runtime][control]") {
  auto launcher = std::make_unique<Launcher>(1);
  Control control(launcher->identity(0), patient());
  control.join("");
  const int descriptor = control.descriptor();
  launcher.reset();
  const Notice notice = wait_for_notice(control);
  CHECK(control.descriptor() == -1);
  CHECK(::fcntl(descriptor, F_GETFD) >= 0);  // who has waited for it has yet to forget it
  CHECK(notice.kind == Notice::Kind::abort);
  CHECK_THAT(notice.text, ContainsSubstring("the launcher ended"));
}
