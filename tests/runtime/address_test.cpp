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
  const Address address{"boot/4026531840", "rondo-0123", "[::1]:4711", 96, true};
  CHECK(Address::unpack(address.pack()) == address);
  CHECK(Address::unpack(Address{}.pack()) == Address{});
}

TEST_CASE("an address that no rank packs is refused", "[runtime][address]") {
  const auto text = GENERATE("", "3\n", "2\nhost\nname\n\n1\n", "3\nhost\nname\n\n0\n\n", "3\nhost\nname\n\nmany\n\n");
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

TEST_CASE("ranks share cores where a host has more of them than cores", "[runtime][address]") {
  using Ranks = std::vector<Address>;
  CHECK_FALSE(oversubscribed(Ranks{on("a", 2), on("a", 2)}));
  CHECK(oversubscribed(Ranks{on("a", 2), on("a", 2), on("a", 2)}));
  CHECK_FALSE(oversubscribed(Ranks{on("a", 1), on("b", 1), on("c", 1)}));
  CHECK(oversubscribed(Ranks{on("a", 64), on("b", 1), on("b", 1)}));
}
