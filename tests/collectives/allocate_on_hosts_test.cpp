// Buffers from `allocate` on a communicator of several hosts: the ranks of each share theirs.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/group.hpp"
#include "tests/collectives/expected.hpp"
#include "tests/collectives/pretended_hosts.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

// Alone on a host; in another order than their places; more hosts than ranks on any.
const std::vector<Table> kTables = {{0, 0, 1, 1}, {0, 1, 1, 0, 4}, {0, 1, 0, 1, -1, 0}, {0, 0, 2, 2, 4, 4, 4}};
constexpr std::size_t kCount = 80'003;

std::vector<double> numbers(int rank, std::size_t count) {
  std::vector<double> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = element<double>(rank, i);
  return all;
}

bool equal(std::span<const double> a, std::span<const double> b) { return std::ranges::equal(a, b); }

}  // namespace

TEST_CASE("the ranks of a host map what each of them has allocated", "[collectives][allocate][two_level]") {
  for (const Table& hosts : kTables) {
    run_on_hosts(hosts, [](Communicator& comm) {
      const auto buffer = allocate<int>(comm, 3000);
      buffer[2999] = comm.rank() + 1;
      barrier(comm);
      detail::Team& team = CommunicatorAccess::group(comm, "").neighbours();
      const detail::SharedRegions& regions = team.commons.regions();
      const auto* const data = reinterpret_cast<const std::byte*>(buffer.data());
      const auto place = regions.find(data, 12'000, team.rank);
      require((place.region != 0) == (team.size() > 1), "shared with those on the same host");
      require(regions.at(place, 12'000, -1) == nullptr, "with one who is elsewhere");
      for (int other = 0; place.region != 0 && other < team.size(); ++other) {
        const auto theirs = regions.at(place, 12'000, other);
        require(theirs && reinterpret_cast<const int*>(theirs.get())[2999] == team.member(other) + 1,
                "the part of another");
      }
      barrier(comm);
    });
  }
}

TEST_CASE("collectives and messages of such buffers give what those of others do",
          "[collectives][allocate][two_level]") {
  for (const Table& hosts : kTables) {
    run_on_hosts(hosts, [](Communicator& comm) {
      const std::vector<double> mine = numbers(comm.rank(), kCount);
      std::vector<double> total(kCount);
      for (int rank = 0; rank < comm.size(); ++rank) {
        for (std::size_t i = 0; i < kCount; ++i) total[i] += element<double>(rank, i);
      }
      const auto in = allocate<double>(comm, kCount), out = allocate<double>(comm, kCount);
      for (const std::size_t count : {std::size_t{1}, std::size_t{20'001}, kCount}) {
        const auto given = in.span().first(count), got = out.span().first(count);
        const auto wanted = std::span(total).first(count);
        std::copy_n(mine.begin(), count, given.begin());
        all_reduce(comm, given, got, sum, kTwoLevel);
        require(equal(got, wanted), "all_reduce");
        require(equal(given, std::span(mine).first(count)), "its input");
        for (int root = 0; root < comm.size(); ++root) {
          std::ranges::fill(got, -1);
          reduce(comm, given, got, sum, root, kTwoLevel);
          if (comm.rank() == root) require(equal(got, wanted), "reduce to " + std::to_string(root));
          broadcast(comm, got, root, kTwoLevel);
          require(equal(got, wanted), "broadcast from " + std::to_string(root));
        }
        for (int distance = 1; distance < comm.size(); ++distance) {
          const int to = (comm.rank() + distance) % comm.size();
          const int from = (comm.rank() + comm.size() - distance) % comm.size();
          comm.sendrecv(given, to, got, from);
          require(equal(got, numbers(from, count)), "a message from " + std::to_string(from));
        }
      }
    });
  }
}

TEST_CASE("ranks on several hosts that allocate different sizes all hear of it", "[collectives][allocate][two_level]") {
  const auto outcomes = try_on_hosts(
      {0, 0, 1, 1, 4}, [](Communicator& comm) { const auto buffer = allocate<int>(comm, comm.rank() == 4 ? 7 : 8); });
  for (const auto& outcome : outcomes) {
    INFO(outcome.error);
    CHECK(outcome.code == Errc::collective_mismatch);
  }
}
