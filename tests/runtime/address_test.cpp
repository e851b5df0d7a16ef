#include "runtime/address.hpp"

#include <string>
#include <vector>

#include <rondo/error.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;

namespace {

Address on(const std::string& host, int cores) { return {host, "", "", cores}; }

}  // namespace

TEST_CASE("the address of a rank survives the meeting point", "[runtime][address]") {
  const Address address{"boot/4026531840", "rondo-0123", "[::1]:4711", 96, true, std::size_t{64} << 20};
  CHECK(Address::unpack(address.pack()) == address);
  CHECK(Address::unpack(Address{}.pack()) == Address{});
}

TEST_CASE("an address that no rank packs is refused", "[runtime][address]") {
  const auto text = GENERATE("", "4\n", "1\nhost\nname\n\n", "4\nhost\nname\n\n0\n\n1\n",
                             "4\nhost\nname\n\nmany\n\n1\n", "4\nhost\nname\n\n1\n\n-1\n", "4\nhost\nname\n\n1\n\n");
  try {
    Address::unpack(text);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::protocol);
    CHECK_THAT(error.what(), ContainsSubstring("the address of a rank"));
  }
}

TEST_CASE("ranks that may share memory are told by the first of their host", "[runtime][address]") {
  const auto rank = [](const char* host, bool shares) { return Address{host, "", "", 1, shares}; };
  const std::vector<Address> all{rank("a", true), rank("b", true), rank("a", true), rank("a", false), rank("b", true)};
  CHECK(hosts(all) == std::vector<int>{0, 1, 0, -1, 1});
}

TEST_CASE("ranks that promise each other different memory are all told of both", "[runtime][address]") {
  std::vector<Address> ranks{on("a", 1), on("b", 1), on("b", 1)};
  check_same_promise(ranks);
  ranks[2].unexpected_bytes = 4096;
  try {
    check_same_promise(ranks);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == Errc::bad_configuration);
    CHECK_THAT(error.what(), ContainsSubstring("RONDO_UNEXPECTED_BYTES differs between ranks: rank 0 has 0, rank 2 has "
                                               "4096"));
  }
}

TEST_CASE("ranks share cores where a host has more of them than cores", "[runtime][address]") {
  using Ranks = std::vector<Address>;
  CHECK_FALSE(oversubscribed(Ranks{on("a", 2), on("a", 2)}));
  CHECK(oversubscribed(Ranks{on("a", 2), on("a", 2), on("a", 2)}));
  CHECK_FALSE(oversubscribed(Ranks{on("a", 1), on("b", 1), on("c", 1)}));
  CHECK(oversubscribed(Ranks{on("a", 64), on("b", 1), on("b", 1)}));
}
