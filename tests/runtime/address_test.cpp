#include "runtime/address.hpp"

#include <string>
#include <vector>

#include <rondo/error.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;

namespace {

Address on(const std::string& host, int cores) { return {host, "", "", cores, ""}; }

}  // namespace

TEST_CASE("the address of a rank survives the meeting point", "[runtime][address]") {
  const Address address{"boot/4026531840", "rondo-0123",         "[::1]:4711", 96, "0111", "auto",
                        "no rules",        std::size_t{64} << 20};
  CHECK(Address::unpack(address.pack()) == address);
  CHECK(Address::unpack(Address{}.pack()) == Address{});
}

TEST_CASE("an address that no rank packs is refused", "[runtime][address]") {
  const auto text =
      GENERATE("", "7\n", "6\nhost\nname\n\n1\n\n\n\n1\n", "7\nhost\nname\n\n0\n\n\n\n1\n",
               "7\nhost\nname\n\nmany\n\n\n\n1\n", "7\nhost\nname\n\n1\n\n\n\n-1\n", "7\nhost\nname\n\n1\n\n\n\n");
  try {
    Address::unpack(text);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::protocol);
    CHECK_THAT(error.what(), ContainsSubstring("the address of a rank"));
  }
}

TEST_CASE("ranks that may share memory are told by the first of their host", "[runtime][address]") {
  const auto rank = [](const char* host, const char* transport) { return Address{host, "", "", 1, "", transport}; };
  const std::vector<Address> all{rank("a", "auto"), rank("b", "shm"), rank("a", "shm"), rank("a", "tcp"),
                                 rank("b", "auto")};
  CHECK(hosts(all) == std::vector<int>{0, 1, 0, -1, 1});
}

TEST_CASE("ranks that are apart are told by what", "[runtime][address]") {
  CHECK(apart("kernel/1", "kernel/2") == "another network namespace of this host");
  CHECK(apart("kernel/1", "other/1") == "another host");
  CHECK(apart("/1", "/2") == "another host");  // of which nothing is known
}

TEST_CASE("ranks with different settings that must be one are all told of both", "[runtime][address]") {
  std::vector<Address> ranks{on("a", 1), on("b", 1), on("b", 1)};
  check_same_settings(ranks);
  const auto check_refused = [&](const std::string& text) {
    try {
      check_same_settings(ranks);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == Errc::bad_configuration);
      CHECK_THAT(error.what(), ContainsSubstring(text));
    }
  };
  SECTION("what they promise each other") {
    ranks[2].unexpected_bytes = 4096;
    check_refused("RONDO_UNEXPECTED_BYTES differs between ranks: rank 0 has 0, rank 2 has 4096");
  }
  SECTION("what they choose by") {
    ranks[2].tuning = "3 rules of checksum 0123abcd";
    check_refused(
        "RONDO_TUNING_FILE differs between ranks: rank 0 has no rules, rank 2 has 3 rules of checksum 0123abcd");
  }
  SECTION("by what they talk") {
    ranks[1].transport = "tcp";
    check_refused("RONDO_TRANSPORT differs between ranks: rank 0 has auto, rank 1 has tcp");
  }
}

TEST_CASE("ranks share cores where a host has more of them than cores", "[runtime][address]") {
  using Ranks = std::vector<Address>;
  CHECK_FALSE(oversubscribed(Ranks{on("a", 2), on("a", 2)}));
  CHECK(oversubscribed(Ranks{on("a", 2), on("a", 2), on("a", 2)}));
  CHECK_FALSE(oversubscribed(Ranks{on("a", 1), on("b", 1), on("c", 1)}));
  CHECK(oversubscribed(Ranks{on("a", 64), on("b", 1), on("b", 1)}));
}

TEST_CASE("ranks that are bound to cores have together what each may use", "[runtime][address]") {
  using Ranks = std::vector<Address>;
  const auto bound = [](const char* affinity, int cores = 4) { return Address{"a", "", "", cores, affinity}; };
  const auto cores = [](const Ranks& ranks) { return machines(ranks).at("a").cores; };
  CHECK(cores(Ranks{bound("1"), bound("01")}) == 2);
  CHECK(cores(Ranks{bound("01"), bound("01")}) == 1);
  CHECK(cores(Ranks{bound("0001"), bound("01"), bound("1")}) == 3);
  CHECK(cores(Ranks{bound("1111", 2), bound("1111", 2)}) == 2);
  CHECK(cores(Ranks{bound("1111", 3), bound("1111", 2)}) == 2);
  CHECK(cores(Ranks{bound(""), bound("")}) == 4);
  const Ranks apart{bound("1"), on("b", 1), bound("1")};
  CHECK(machines(apart).at("a").ranks == 2);
  const Ranks containers{on("a/1", 2), on("a/2", 2), on("a/2", 2), on("b/1", 2), on("/1", 2), on("/2", 2)};
  CHECK(machines(containers).at("a").ranks == 3);
  CHECK(machines(containers).at("/2").ranks == 1);
  CHECK(place_on_machine(containers, 2) == 2);
  CHECK(place_on_machine(containers, 3) == 0);
  CHECK(place_on_machine(containers, 5) == 0);
  CHECK(oversubscribed(containers));
  CHECK_FALSE(oversubscribed(Ranks{on("a/1", 2), on("a/2", 2)}));
  CHECK_FALSE(oversubscribed(Ranks{bound("1"), bound("01")}));
  CHECK(oversubscribed(Ranks{bound("01"), bound("01"), on("b", 1)}));
}

TEST_CASE("ranks that may run on the same cores of a machine have places among them", "[runtime][address]") {
  const auto bound = [](const char* host, const char* affinity) { return Address{host, "", "", 4, affinity}; };
  const std::vector<Address> ranks{bound("a/1", "11"), bound("a/1", "01"), bound("b/1", "11"), bound("a/2", "11")};
  CHECK(core_places(ranks, 0) == std::vector{0, -1, -1, 1});
  CHECK(core_places(ranks, 1) == std::vector{-1, 0, -1, -1});
  CHECK(core_places(ranks, 2) == std::vector{-1, -1, 0, -1});
}
