#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"

// Two hosts, as far as one machine has them: network namespaces, joined by a pair of virtual network devices. They have
// no names, and neither have the devices outside of them: all go with the process that everything here descends from.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Ranks of a world by where they are.
struct Layout {
  std::vector<int> here, there;
  std::size_t size() const { return here.size() + there.size(); }
};

/// In a shell that has a network to itself: a second one, in which process $there holds out.
constexpr auto kTwoHosts = R"sh(set -e
for v in $(env | sed -n 's/^\(RONDO_[A-Z_]*\|MASTER_[A-Z]*\)=.*/\1/p'); do unset $v; done
unshare --net sleep 1000 & there=$!
until [ "$(readlink /proc/$there/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
on_there() { nsenter --net=/proc/$there/ns/net "$@"; }
ip link set lo up
ip link add here type veth peer name there netns $there
ip address add 192.0.2.1/24 dev here
ip link set here up
on_there ip link set lo up
on_there ip address add 192.0.2.2/24 dev there
on_there ip link set there up
export RONDO_MASTER_ADDR=192.0.2.1 RONDO_MASTER_PORT=4711 RONDO_INSECURE=1 RONDO_LOG=info
set +e
)sh";

/// Runs a shell script as process 1 of its own: when it ends, or the test does, so does everything in it.
Launched::Ended run_apart(const std::string& script) {
  std::vector<std::string> words{"unshare", "--net", "--fork", "--kill-child", "--pid", "--mount-proc"};
  if (::geteuid() != 0) words.insert(words.begin() + 1, {"--user", "--map-root-user"});
  words.insert(words.end(), {"sh", "-c", script});
  Launched launched({}, std::move(words));
  launched.end_input();
  return launched.wait();
}

/// The same world again and again: each command by all ranks. Ends with 1 if any of them ends otherwise than with 0.
Launched::Ended run_on_hosts(const Layout& layout, const std::vector<std::string>& commands) {
  std::string script = kTwoHosts;
  script += "failed=0\n";
  for (const std::string& command : commands) {
    script += "ranks=\n";
    for (const auto* host : {&layout.here, &layout.there}) {
      for (std::size_t place = 0; place < host->size(); ++place) {
        script += "RONDO_RANK=" + std::to_string((*host)[place]) + " RONDO_SIZE=" + std::to_string(layout.size()) +
                  " RONDO_LOCAL_RANK=" + std::to_string(place) + " RONDO_LOCAL_SIZE=" + std::to_string(host->size()) +
                  (host == &layout.there ? " on_there " : " ") + command + " & ranks=\"$ranks $!\"\n";
      }
    }
    script += "for rank in $ranks; do wait $rank || failed=1; done\n";
  }
  return run_apart(script + "exit $failed\n");
}

bool hosts_can_be_had() {
  static const Launched::Ended probe = run_apart(kTwoHosts);
  if (probe.status == 0) return true;
  rondo::testing::skipped("no two network namespaces can be had here: " + probe.err);
  return false;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("ranks of one host share memory, ranks of two go over TCP, and collectives take two levels",
          "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  // Also where nobody says how many of them are on which host.
  const std::string program = GENERATE(MEETING_RANK, "env -u RONDO_LOCAL_RANK -u RONDO_LOCAL_SIZE " MEETING_RANK);
  for (const Layout& layout : {Layout{{0, 1}, {2, 3}}, Layout{{0, 2, 3}, {1, 4}}}) {
    const auto ended = run_on_hosts(layout, {program});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    const auto sum = std::to_string(layout.size() * (layout.size() + 1) / 2);
    CHECK(count(ended.out, ", sum " + sum + "\n") == layout.size());
    for (const auto* host : {&layout.here, &layout.there}) {
      const auto of_host =
          "collectives in two levels, of the " + std::to_string(host->size()) + " on this host in shared memory";
      for (const int rank : *host) {
        CHECK_THAT(ended.err, ContainsSubstring("rondo: rank " + std::to_string(rank) + ": communicator of " +
                                                std::to_string(layout.size()) + " ranks: " + of_host));
        for (const int other : *host) {
          const auto pair = "rondo: rank " + std::to_string(rank) + ": rank " + std::to_string(other) + ": ";
          CHECK(count(ended.err, pair + "tcp") == 0);
          if (other == (*host)[0] && rank != other) CHECK_THAT(ended.err, ContainsSubstring(pair + "shm"));
        }
      }
    }
    const auto between = "rondo: rank 0: rank " + std::to_string(layout.there[0]) + ": ";
    CHECK_THAT(ended.err, ContainsSubstring(between + "tcp"));
    CHECK(count(ended.err, between + "shm") == 0);
    CHECK_THAT(ended.err, ContainsSubstring(", no shared memory: another network namespace of this host\n"));
  }
}

TEST_CASE("ranks of one machine that cannot share memory say so, each once; ranks of two do not", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  constexpr auto kOtherMachine = "mount --bind /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id && ";
  const bool one_machine = GENERATE(true, false);
  const auto ended = run_on_hosts({{0, 1}, {2, 3}}, {std::string("env -u RONDO_LOG unshare --mount sh -c '") +
                                                     (one_machine ? "" : kOtherMachine) + "exec " MEETING_RANK "'"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const std::string why = "no shared memory with ranks of this host, tcp instead: another network namespace";
  for (const char* rank : {"0", "2"}) {
    CHECK(count(ended.err, std::string("rondo: rank ") + rank + ": " + why) == (one_machine ? 1 : 0));
  }
  for (const char* rank : {"1", "3"}) CHECK(count(ended.err, std::string("rondo: rank ") + rank + ": " + why) <= 1);
  if (!one_machine) CHECK(count(ended.err, "no shared memory") == 0);
}

TEST_CASE("without a key no rank can be called from another host", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended = run_apart(kTwoHosts + std::string("export RONDO_MASTER_ADDR=127.0.0.1 RONDO_INSECURE=0\n"
                                                       "export RONDO_INTERFACE=here RONDO_TRANSPORT=tcp\n"
                                                       "RONDO_RANK=0 RONDO_SIZE=2 exec " MEETING_RANK));
  INFO(ended.out << ended.err);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.out, ContainsSubstring("192.0.2.1 is not loopback and there is no job key"));
}

TEST_CASE("the benchmark says what carries which pair, and why", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended = run_on_hosts({{0, 1}, {2}}, {RONDO_BENCH " barrier --iterations 5"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("transport shm+tcp\n") && ContainsSubstring("# shm: 0-1, long messages ") &&
                            ContainsSubstring("\n# tcp: 0-2 1-2 (another network namespace of this host)\n"));
}

TEST_CASE("hosts whose ranks have no arena each say so, and so does the benchmark", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended = run_on_hosts({{0, 1}, {2, 3}}, {"env -u RONDO_LOG sh -c 'ulimit -f 1300; exec " RONDO_BENCH
                                                     " all_reduce --sizes 8 --iterations 5'"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const std::string of_host[] = {"rank 0 could not make ", "rank 2 could not make "};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(count(ended.err, "rondo: rank " + std::to_string(rank) + ": no shared memory for collectives, messages " +
                               "instead: " + of_host[rank / 2]) == 1);
  }
  const auto line = ended.out.find("\n# collectives by messages: " + of_host[0]);
  REQUIRE(line != std::string::npos);
  CHECK(ended.out.find("; " + of_host[1], line) < ended.out.find('\n', line + 1));
}

TEST_CASE("every collective is right on two hosts, short and long", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  std::vector<std::string> commands{RONDO_BENCH " barrier --iterations 50"};
  for (const char* operation :
       {"all_reduce", "reduce", "broadcast", "scatter", "gather", "all_gather", "reduce_scatter", "all_to_all"}) {
    for (const char* buffers : {"", " --allocate"}) {
      commands.push_back(std::string(RONDO_BENCH " ") + operation + " --sizes 16,1000K --iterations 10" + buffers);
    }
  }
  const auto ended = run_on_hosts({{0, 1}, {2, 3}}, commands);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(count(ended.out, "# Out of bounds values : 0 OK") == commands.size());
  CHECK(count(ended.out, "not shared") == 0);
}

TEST_CASE("a rank that sleeps is woken by whoever speaks, of its host or of another", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended =
      run_on_hosts({{0, 1}, {2}}, {"env MEETING_MODE=turns RONDO_TIMEOUT=20 RONDO_SPIN=0 RONDO_YIELD=0 " MEETING_RANK});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, !ContainsSubstring("another rank spoke"));
  CHECK_THAT(ended.out, ContainsSubstring("slept, woken\n"));
}

TEST_CASE("a rank that is alone on its host allocates for itself, and the benchmark says so", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended =
      run_on_hosts({{0, 1}, {2}}, {RONDO_BENCH " all_reduce --sizes 16,1000K --iterations 10 --allocate"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out,
             ContainsSubstring("# buffers of 16 and more are not shared: rank 2 shares memory with no other") &&
                 ContainsSubstring("# Out of bounds values : 0 OK"));
}

TEST_CASE("a rank that is killed fails those of its host and of the other", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  for (const char* act : {"all_reduce-small", "all_reduce-automatic", "barrier"}) {
    for (const char* victim : {"1", "2", "3"}) {
      const auto ended = run_on_hosts({{0, 1}, {2, 3}}, {std::string(FAILING_RANK " ") + act + " " + victim + " kill"});
      INFO(act << " " << victim << "\n" << ended.out << ended.err);
      CHECK(count(ended.out, std::string(" peer_failed peer ") + victim + ": ") == 3);
      CHECK(count(ended.out, std::string(": rank ") + victim + " died: ") == 3);
    }
  }
}

TEST_CASE("a host that is cut off is missed, though nobody sends to it", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const std::string rank = " " FAILING_RANK " barrier 1 stop";
  const auto ended =
      run_apart(kTwoHosts + ("RONDO_RANK=1 RONDO_SIZE=2 on_there" + rank) +
                " | { read stopped; ip link set here down; } &\n" + "RONDO_RANK=0 RONDO_SIZE=2" + rank + "\n");
  INFO(ended.out << ended.err);
  CHECK_THAT(ended.out, ContainsSubstring(" peer_failed peer 1: rondo: rank 0: "));
}

TEST_CASE("ranks share memory where nobody can write to /tmp and a small /dev/shm", "[process][hosts]") {
  if (!hosts_can_be_had()) return;
  const auto ended = run_apart(
      "mount -t tmpfs -o ro,size=64k none /dev/shm && mount --rbind /tmp /tmp && "
      "mount -o remount,bind,ro /tmp && ip link set lo up && RONDO_LOG=info " RONDO_RUN " -n 4 -- " RONDO_BENCH
      " all_reduce --allocate --sizes 16,16M --iterations 5");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("transport shm, ") && ContainsSubstring("# Out of bounds values : 0 OK"));
  CHECK_THAT(ended.err, ContainsSubstring("communicator of 4 ranks: collectives in shared memory"));
}
