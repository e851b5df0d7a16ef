#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

// Ranks that nobody but a shell started, as a user sets them up by hand; and what a launched job says of a bad set-up.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A port of the loopback address that is nobody else's, but may be listened on.
class Bound {
 public:
  /// Any port, or this one; `port()` is 0 where it is not to be had.
  explicit Bound(int wanted = 0) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(wanted));
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_.get(), generic, length) != 0) return;
    if (::getsockname(socket_.get(), generic, &length) == 0) port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }
  int socket() const { return socket_.get(); }

 private:
  rondo::detail::Descriptor socket_;
  int port_ = 0;
};

/// One that somebody listens on, and answers nobody.
class Held {
 public:
  Held() { ::listen(bound_.socket(), 8); }
  int port() const { return bound_.port(); }

 private:
  Bound bound_;
};

/// A port of this process until it ends: nobody is given it by chance, rank 0 may listen on it.
int own_port() {
  static std::vector<Bound> own;
  return own.emplace_back().port();
}

/// Runs the lines at the same time in one shell each, with none of rondo's or torchrun's variables set around them.
Launched::Ended run_together(const std::vector<std::string>& lines) {
  std::string script =
      "for v in $(env | sed -n 's/^\\(RONDO_[A-Z_]*\\|MASTER_[A-Z]*\\|TORCHELASTIC_[A-Z_]*\\)=.*/\\1/p'); do unset $v; "
      "done\n";
  for (const std::string& line : lines) script += "( " + line + " ) &\n";
  Launched launched({}, {"sh", "-c", script + "wait"});
  launched.end_input();
  return launched.wait();
}

/// One rank by torchrun's variables.
std::string by_variables(int rank, int size, int port, const std::string& more = "") {
  return "RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(size) +
         " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port) + " " + more + " " MEETING_RANK;
}

std::string by_method(const std::string& method, int rank, int size) {
  return MEETING_RANK " " + method + " " + std::to_string(rank) + " " + std::to_string(size);
}

int lines_with(const std::string& text, const std::string& wanted) {
  int count = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.find(wanted) != std::string::npos) ++count;
  }
  return count;
}

void check_met(const Launched::Ended& ended, int size) {
  INFO(ended.out << ended.err);
  CHECK(lines_with(ended.out, " of " + std::to_string(size) + ", sum " + std::to_string(size * (size + 1) / 2)) ==
        size);
}

Launched::Ended launch_with(int ranks, std::vector<std::string> options) {
  std::vector<std::string> words{"-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(MEETING_RANK);
  return launch(words);
}

}  // namespace

TEST_CASE("ranks meet by the process that started them, in scripts of their own, too", "[process][meeting]") {
  std::string script = "unset RONDO_RANK RONDO_SIZE RONDO_JOB_ID PMI_JOBID SLURM_JOB_ID\n";
  for (const std::string rank : {"0", "1", "2"}) {
    script += "MPI_LOCALRANKID=" + rank + " MPI_LOCALNRANKS=3 PMI_SIZE=3 PMI_RANK=" + rank +
              " sh -c 'sh -c \"" MEETING_RANK "; true\"; true' &\n";
  }
  Launched launched({}, {"sh", "-c", script + "wait"});
  launched.end_input();
  check_met(launched.wait(), 3);
}

TEST_CASE("ranks meet by torchrun's variables, set by hand", "[process][meeting]") {
  const int port = own_port();
  check_met(
      run_together({by_variables(0, 3, port), "sleep 0.1; " + by_variables(1, 3, port), by_variables(2, 3, port)}), 3);
}

TEST_CASE("where torchrun's own store holds the port, ranks meet at the next", "[process][meeting]") {
  std::vector<Held> tried(1);
  Bound next(tried.back().port() + 1);
  while (next.port() == 0) next = Bound(tried.emplace_back().port() + 1);
  const Held& store = tried.back();
  const std::string agent = "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=none";
  check_met(run_together({by_variables(0, 2, store.port(), agent), by_variables(1, 2, store.port(), agent)}), 2);
}

TEST_CASE("ranks of one host that cannot share memory say why, each once, unless they were told not to",
          "[process][meeting]") {
  const bool told = GENERATE(false, true);
  std::vector<std::string> arguments{"-n", "4", "--no-prefix", "--", MEETING_RANK};
  if (told) arguments.insert(arguments.begin(), {"-x", "RONDO_TRANSPORT=unix"});
  Launched launched(std::move(arguments), {"sh", "-c", "ulimit -f 64; exec \"$@\"", "sh"});
  launched.end_input();
  const auto ended = launched.wait();
  INFO(ended.out << ended.err);
  check_met(ended, 4);
  for (const char* rank : {"0", "1", "2", "3"}) {
    CHECK(lines_with(ended.err, "rondo: rank " + std::string(rank) +
                                    ": no shared memory with ranks of this host, unix instead: limit of file sizes "
                                    "(ulimit -f)") == (told ? 0 : 1));
  }
}

TEST_CASE("ranks meet and leave when libcrypto has been given up, as at the end of their processes",
          "[process][meeting]") {
  const auto ended = launch({"-n", "4", "-x", "MEETING_MODE=late", "--no-prefix", "--", MEETING_RANK});
  INFO(ended.out << ended.err);
  check_met(ended, 4);
}

TEST_CASE("ranks meet at an address that the program names", "[process][meeting]") {
  const std::string host = GENERATE("127.0.0.1", "[::1]", "localhost");
  const std::string method = "tcp://" + host + ":" + std::to_string(own_port());
  check_met(run_together({by_method(method, 1, 2), by_method(method, 0, 2)}), 2);
}

TEST_CASE("ranks meet by a file, whatever an earlier job left in it", "[process][meeting]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/meeting", method = "file://" + path;
  const std::string before = GENERATE("nothing", "a part of a note", "the note of a job that was killed");
  INFO(before);
  if (before == "a part of a note") {
    std::ofstream(path) << "rondo meeting 1\naddress 127.0.0.1:";
    ::chmod(path.c_str(), 0600);
  }
  if (before.starts_with("the note")) {
    // Rank 0 waits for rank 1 and is killed.
    run_together({by_method(method, 0, 2) + " & until [ -s " + path + " ]; do sleep 0.01; done; kill -KILL $!"});
    REQUIRE(file_text(path) != "");
  }
  for (int i = 0; i < 2; ++i) check_met(run_together({by_method(method, 0, 2), by_method(method, 1, 2)}), 2);
}

TEST_CASE("a file of somebody else is refused by all ranks, and stays as it is", "[process][meeting]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/precious", method = "file://" + path;
  std::ofstream(path) << "no rank wrote this\n";
  ::chmod(path.c_str(), 0600);
  const auto ended = run_together({by_method(method, 0, 2), by_method(method, 1, 2)});
  INFO(ended.out);
  CHECK(lines_with(ended.out, "failed with bad_configuration: rondo: meeting file " + path) == 2);
  CHECK(file_text(path) == "no rank wrote this\n");
}

TEST_CASE("a rank that never comes is named to those that came", "[process][meeting]") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/meeting", file = "file://" + path;
  const int port = own_port();
  // Rank 0 has all the time: it is rank 2, which comes when rank 0 is there, that gives up for both.
  const std::string when_there = "until [ -s " + path + " ]; do sleep 0.01; done; RONDO_INIT_TIMEOUT=1 ";
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "%04X", static_cast<unsigned>(port));
  const std::string when_it_listens =
      std::string("until grep -q ':") + hex.data() + " 00000000:0000 0A' /proc/net/tcp; do sleep 0.01; done; ";
  for (const auto& ended :
       {run_together({by_variables(0, 4, port), when_it_listens + by_variables(2, 4, port, "RONDO_INIT_TIMEOUT=1")}),
        run_together({by_method(file, 0, 4), when_there + by_method(file, 2, 4)})}) {
    INFO(ended.out << ended.err);
    CHECK(lines_with(ended.out, "failed with bootstrap_failed") == 2);
    CHECK(lines_with(ended.out, "never came: ranks 1, 3") == 2);
  }
}

TEST_CASE("without rank 0 the others say where they looked for it", "[process][meeting]") {
  const int port = own_port();
  const auto ended = run_together({by_variables(1, 2, port, "RONDO_INIT_TIMEOUT=300ms")});
  INFO(ended.out);
  CHECK_THAT(ended.out, ContainsSubstring("failed with bootstrap_failed") &&
                            ContainsSubstring("127.0.0.1:" + std::to_string(port)) &&
                            ContainsSubstring("Connection refused"));
}

TEST_CASE("two processes with one rank are told, and all that wait with them", "[process][meeting]") {
  const int port = own_port();
  const auto ended = run_together({by_variables(0, 4, port), by_variables(1, 4, port), by_variables(1, 4, port)});
  INFO(ended.out);
  CHECK(lines_with(ended.out, "failed with duplicate_rank") == 3);
  CHECK(lines_with(ended.out, "rank 1 is claimed twice") >= 2);
}

TEST_CASE("a port in use is an error of rank 0 that names it, and of those who find a stranger there",
          "[process][meeting]") {
  const Held held;
  const auto ended = run_together({by_variables(0, 2, held.port()), by_variables(1, 2, held.port())});
  INFO(ended.out);
  CHECK(lines_with(ended.out, "failed with address_in_use") == 2);
  CHECK(lines_with(ended.out, "127.0.0.1:" + std::to_string(held.port())) == 2);
}

TEST_CASE("what the system refuses at the start is an error, whatever asked for it", "[process][meeting]") {
  if (SANITIZED) return;  // a sanitizer needs descriptors of its own
  const auto ended = run_together(
      {"for files in 5 6 7 8 9 10 11 12; do (ulimit -n $files; " + by_variables(0, 1, own_port()) + "); done"});
  INFO(ended.out << ended.err);
  const int refused = lines_with(ended.out, "failed with system: rondo: ");
  CHECK(refused > 0);
  CHECK(refused == lines_with(ended.out, ": Too many open files [system]"));
  CHECK(refused + lines_with(ended.out, "met as rank 0 of 1, sum 1") == 8);
}

TEST_CASE("under the launcher a port in use ends every rank, whatever it was doing", "[process][meeting]") {
  const Held held;
  const auto ended =
      launch({"-n", "3", "sh", "-c",
              "exec " MEETING_RANK " tcp://127.0.0.1:" + std::to_string(held.port()) + " $RONDO_RANK 3"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 1);
  CHECK(lines_with(ended.out, "failed with address_in_use: rondo: rank 0 cannot listen on") == 1);
  CHECK(lines_with(ended.out, "failed with ") == 1);
  CHECK_THAT(ended.err, ContainsSubstring("rank 0 failed first"));
}

TEST_CASE("variables that contradict each other name both sides", "[process][meeting]") {
  const auto ended = run_together({by_variables(0, 2, 4711, "RONDO_RANK=1 RONDO_SIZE=2")});
  CHECK_THAT(ended.out, ContainsSubstring("failed with bad_configuration") &&
                            ContainsSubstring("RONDO_* says rank 1 of 2, RANK and WORLD_SIZE say rank 0 of 2"));
  const auto incomplete = run_together({"RANK=0 " MEETING_RANK, "RANK=5 WORLD_SIZE=2 " MEETING_RANK,
                                        "RANK=0 WORLD_SIZE=2 " MEETING_RANK, "RANK=zero WORLD_SIZE=2 " MEETING_RANK});
  INFO(incomplete.out);
  CHECK(lines_with(incomplete.out, "failed with bad_configuration") == 4);
  CHECK(lines_with(incomplete.out, "WORLD_SIZE is not set") == 1);
  CHECK(lines_with(incomplete.out, "got rank 5, wanted 0 to 1") == 1);
  CHECK(lines_with(incomplete.out, "wanted MASTER_ADDR and MASTER_PORT") == 1);
  CHECK(lines_with(incomplete.out, "RANK: got \"zero\"") == 1);
}

TEST_CASE("a rank with another key is refused, and the others say who is missing", "[process][meeting]") {
  const TemporaryDirectory directory;
  for (const std::string name : {"a", "b"}) {
    std::ofstream(directory.path() + "/" + name) << std::string(64, name[0]) << "\n";
    ::chmod((directory.path() + "/" + name).c_str(), 0600);
  }
  const std::string mine = "RONDO_JOB_KEY_FILE=" + directory.path();
  const int port = own_port();
  check_met(run_together({by_variables(0, 2, port, mine + "/a"), by_variables(1, 2, port, mine + "/a")}), 2);
  // Rank 2 comes when rank 1 has been refused, and is the one that does not wait for it.
  const auto ended = run_together(
      {by_variables(0, 3, port, mine + "/a"),
       by_variables(1, 3, port, mine + "/b") + "; RONDO_INIT_TIMEOUT=1 " + by_variables(2, 3, port, mine + "/a")});
  INFO(ended.out);
  CHECK(lines_with(ended.out, "failed with authentication") == 1);
  CHECK(lines_with(ended.out, "failed with bootstrap_failed") == 2);
  CHECK(lines_with(ended.out, "never came: rank 1") == 2);
  CHECK(lines_with(ended.out, "wrong key") >= 1);
}

TEST_CASE("a bad value of a variable ends every rank with what is wanted", "[process][meeting]") {
  const auto check = [](const std::string& variable, const std::string& wanted) {
    const auto ended = launch_with(2, {"-x", variable});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 1);
    CHECK_THAT(ended.out, ContainsSubstring("failed with bad_configuration"));
    CHECK_THAT(ended.out, ContainsSubstring(wanted));
  };
  check("RONDO_TRANSPORT=foo", "RONDO_TRANSPORT: got \"foo\", wanted one of auto, shm, unix, tcp");
  check("RONDO_EAGER_LIMIT=12Q", "RONDO_EAGER_LIMIT: ");
  check("RONDO_TIMEOUT=soon", "RONDO_TIMEOUT: ");
  check("RONDO_ALGORITHM=spiral", "RONDO_ALGORITHM: got \"spiral\", wanted one of automatic, ring, ");
  check("RONDO_INTERFACE=wlan77", "RONDO_INTERFACE: got \"wlan77\", wanted one of lo 127.0.0.1");
  check("RONDO_ALGORITHM=all_reduce=bruck",
        "RONDO_ALGORITHM: all_reduce has no algorithm bruck, wanted recursive_doubling, tree, linear, double_star");
  // For all collectives it is a wish: whoever has it not goes by the table.
  CHECK(launch_with(2, {"-x", "RONDO_ALGORITHM=bruck"}).status == 0);
}

TEST_CASE("a variable that nothing reads is one warning of a job", "[process][meeting]") {
  const auto ended = launch_with(4, {"-x", "RONDO_TRANSPROT=tcp"});
  check_met(ended, 4);
  CHECK(lines_with(ended.err, "RONDO_TRANSPROT: nothing reads this variable, did you mean RONDO_TRANSPORT?") == 1);
}

TEST_CASE("garbage on the ports where ranks listen is turned away, and the job goes on", "[process][meeting]") {
  const auto [transport, listeners] = GENERATE(std::pair{"unix", 1}, std::pair{"tcp", 1});
  const auto ended = launch_with(3, {"-x", std::string("RONDO_TRANSPORT=") + transport, "-x", "MEETING_MODE=garbage"});
  check_met(ended, 3);
  CHECK(lines_with(ended.out, "garbage to " + std::to_string(listeners)) == 3);
  INFO(ended.err);
  CHECK(lines_with(ended.err, "refused a connection") >= 1);
  CHECK(ended.status == 0);
}

TEST_CASE("many strangers do not get a line each", "[process][meeting]") {
  const auto ended = launch_with(2, {"-x", "RONDO_TRANSPORT=unix", "-x", "MEETING_MODE=much-garbage"});
  check_met(ended, 2);
  INFO(ended.err);
  CHECK(lines_with(ended.err, "refused a connection") <= 2 * 8);
  CHECK(lines_with(ended.err, "(RONDO_LOG=info tells of more)") <= 2);
}

TEST_CASE("more ranks than cores meet and work", "[process][meeting]") {
  const std::string transport = GENERATE("unix", "tcp");
  check_met(launch_with(16, {"-x", "RONDO_TRANSPORT=" + transport}), 16);
}

TEST_CASE("all ranks of a job that starts again meet again", "[process][meeting]") {
  const auto ended = launch_with(3, {"--max-restarts", "2", "-x", "MEETING_MODE=once"});
  check_met(ended, 3);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: exited with status 9"));
}

TEST_CASE("a second init beside the first is told so at once", "[process][meeting]") {
  const auto ended = launch_with(2, {"-x", "MEETING_MODE=twice"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 1);
  CHECK(lines_with(ended.out, "failed with bad_configuration: ") >= 1);
  CHECK_THAT(ended.out, ContainsSubstring("taken by an earlier init of this process"));
}
