#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cgroup_root.hpp"
#include "tests/support/skipped.hpp"

// Ranks of one host that do without shared memory: all goes well, and stderr says why, once.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr int kRanks = 3;

/// What each of three ranks says on stderr while they do without.
std::vector<std::vector<std::string>> said_by(const std::string& what, int rank) {
  const auto ended =
      launch({"-n", std::to_string(kRanks), "--no-prefix", "--", UNSHARED_RANK, what, std::to_string(rank)});
  INFO(what << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  std::vector<std::vector<std::string>> said(kRanks);
  const std::vector<std::string> lines = lines_of(ended.err);
  for (int who = 0; who < kRanks; ++who) {
    const std::string prefix = "rondo: rank " + std::to_string(who) + ": ";
    for (const std::string& line : lines) {
      if (line.starts_with(prefix)) said[static_cast<std::size_t>(who)].push_back(line.substr(prefix.size()));
    }
  }
  CHECK(said[0].size() + said[1].size() + said[2].size() == lines.size());
  return said;
}

struct Want {
  std::string what;
  int rank;
  std::string who_could_not, why;
};
void check(const Want& want) {
  for (const auto& lines : said_by(want.what, want.rank)) {
    INFO(want.what << " of rank " << want.rank);
    REQUIRE(lines.size() == 2);
    CHECK_THAT(lines[0], StartsWith("no shared memory for collectives, messages instead: " + want.who_could_not) &&
                             ContainsSubstring(" bytes" + want.why));
    CHECK_THAT(lines[1], StartsWith("no shared memory for allocate, ordinary memory instead: " + want.who_could_not) &&
                             ContainsSubstring(" bytes" + want.why));
  }
}

}  // namespace

TEST_CASE("ranks that cannot have collectives or buffers in shared memory each say so, who could not, and why",
          "[process][unshared]") {
  std::vector<Want> wants{{"files", 0, "rank 0 could not make ", ": limit of file sizes (ulimit -f): File too large"}};
  // A sanitizer needs descriptors of its own, and all addresses.
  if (!SANITIZED) {
    wants.push_back({"descriptors", 0, "rank 0 could not make ", ": memfd_create: Too many open files"});
    wants.push_back({"descriptors", 2, "rank 2 could not map ", ": its descriptor: Too many open files"});
    wants.push_back({"memory", 0, "rank 0 could not make ", ": mapping shared memory: Cannot allocate memory"});
    wants.push_back({"memory", 1, "rank 1 could not map ", ": mapping shared memory: Cannot allocate memory"});
  }
  for (const Want& want : wants) check(want);
}

TEST_CASE("ranks that share nothing with each other say that alone", "[process][unshared]") {
  for (const auto& lines : said_by("files-before", 0)) {
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], StartsWith("no shared memory with ranks of this host, unix instead: limit of file sizes"));
  }
  // Of the three, all but the pair of the first and the last do.
  const auto said = said_by("one-pair", 2);
  for (const auto& lines : said) REQUIRE(lines.size() == 1);
  for (const auto& lines : {said[0], said[2]}) CHECK_THAT(lines[0], StartsWith("no shared memory with ranks"));
  CHECK_THAT(said[1][0], StartsWith("no shared memory for collectives, messages instead: rank 2 cannot be passed any: "
                                    "limit of file sizes (ulimit -f): File too large"));
}

TEST_CASE("ranks do without shared memory where their cgroup leaves them none, instead of being ended by the system",
          "[process][unshared]") {
  if (!rondo::testing::may_hide_cgroups()) return rondo::testing::skipped("a process may not mount a directory here");
  const std::string why = "more than the memory limit of its cgroup leaves: Cannot allocate memory";
  const auto ended = launch({"-n", "3", "--no-prefix", "--", UNSHARED_RANK, "cgroup", "0"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err,
             ContainsSubstring("no shared memory for collectives, messages instead: rank 0 could not make "));
  // Each part would fit, but not all.
  for (const char* const rank : {"0", "1", "2"}) {
    CHECK_THAT(ended.err, ContainsSubstring("rank " + std::string(rank) +
                                            ": allocate: there is no memory of 802816 bytes; nor shared: rank 0 could "
                                            "not make 2408448 bytes: " +
                                            why));
  }
  for (const auto& lines : said_by("cgroup-before", 0)) {
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], StartsWith("no shared memory with ranks of this host, unix instead: " + why));
  }
}

TEST_CASE("ranks whose Unix sockets refuse each other go over TCP, and say why", "[process][unshared]") {
  const auto says = [](const std::vector<std::string>& lines, const std::string& why) {
    REQUIRE_FALSE(lines.empty());
    CHECK_THAT(lines[0], StartsWith("no shared memory with ranks of this host, tcp instead: its unix socket cannot be "
                                    "reached: " +
                                    why));
  };
  // Of two ranks the second connects.
  const auto refused = said_by("refusing", 0);
  for (const std::size_t rank : {1U, 2U}) says(refused[rank], "the connection was closed during the handshake");
  says(said_by("refusing", 2)[2], "it is another user's");
}

TEST_CASE("the log and the benchmark say which way long messages go, and why", "[process][unshared]") {
  const auto run = [](std::vector<std::string> before) {
    std::vector<std::string> words{"-n", "2", "-x", "RONDO_LOG=info", "--"};
    words.insert(words.end(), before.begin(), before.end());
    for (const char* word : {RONDO_BENCH, "latency", "--sizes", "100K", "-i", "3"}) words.emplace_back(word);
    const auto ended = launch(words);
    CHECK(ended.status == 0);
    return ended.out + ended.err;
  };
  const std::string refused = run({UNSHARED_RANK, "without-reading"});
  const std::string why = ", long messages through the ring: process_vm_readv: Operation not permitted\n";
  CHECK_THAT(refused, ContainsSubstring("# shm: all pairs" + why));
  CHECK_THAT(refused, ContainsSubstring("rank 1: shm, connected from here" + why) ||
                          ContainsSubstring("rank 1: shm, connected from there" + why));
  CHECK_THAT(refused, !ContainsSubstring("by process_vm_readv"));
}

TEST_CASE("ranks that do not see each other's processes share memory all the same", "[process][unshared]") {
  std::vector<std::string> words{"unshare", "--pid", "--fork", "--kill-child"};
  if (::geteuid() != 0) words.insert(words.begin() + 1, {"--user", "--map-root-user"});
  const auto on_two = [&](std::vector<std::string> program) {
    std::vector<std::string> all{"-n", "2", "-x", "RONDO_LOG=info", "--"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), program.begin(), program.end());
    return launch(all);
  };
  if (const auto probe = on_two({"true"}); probe.status != 0) {
    rondo::testing::skipped("no namespace of processes can be had here: " + probe.err);
    return;
  }
  const auto ended = on_two({RONDO_BENCH, "latency", "--sizes", "100K", "-i", "3"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("# Out of bounds values : 0 OK") &&
                            ContainsSubstring("# shm: all pairs, long messages through the ring: the other process is "
                                              "not seen from here\n"));
}

TEST_CASE("ranks fail where memory is to be shared and cannot be, and say why", "[process][unshared]") {
  const auto ended = launch({"-n", "3", "-x", "RONDO_TRANSPORT=shm", "--", UNSHARED_RANK, "files-before", "0"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, ContainsSubstring("RONDO_TRANSPORT=shm, but there is no shared memory: limit of file sizes "
                                          "(ulimit -f): File too large"));
}

TEST_CASE("the log says once that memory can be read no more, and why", "[process][unshared]") {
  const auto ended = launch({"-n", "2", "--no-prefix", "-x", "RONDO_LOG=info", "--", UNSHARED_RANK, "reading", "1"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  if (ended.err.find("long messages through the ring: process_vm_readv takes ") != std::string::npos) {
    return rondo::testing::skipped("process_vm_readv takes longer than two copies here, and is not used");
  }
  const std::vector<std::string> lines = lines_of(ended.err);
  const std::string why = "process_vm_readv: Operation not permitted";
  const std::string world = "communicator of 2 ranks: ";
  for (const std::string& line : {"rank 1: rank 0: shm, long messages from now on through the ring: " + why,
                                  "rank 1: " + world + "what scatter fetches of rank 0 comes as a message: " + why,
                                  "rank 0: " + world + "blocks are not fetched from now on: rank 1 may not",
                                  "rank 1: " + world + "blocks are not fetched from now on: rank 1 may not"}) {
    INFO(line);
    CHECK(std::count(lines.begin(), lines.end(), "rondo: " + line) == 1);
  }
}
