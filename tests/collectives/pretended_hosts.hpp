#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <vector>

#include <rondo/options.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

/// Ranks on several hosts, which are pretended: they are threads of this process that have been told who shares memory
/// with whom. Real ones, as far as one machine has them, are in tests/process/hosts_test.cpp.
namespace rondo::testing {

inline constexpr Options kTwoLevel{Algorithm::two_level};

/// By rank; -1: shares memory with nobody.
using Table = std::vector<int>;

inline std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

inline std::vector<Outcome> try_on_hosts(const Table& hosts, const std::function<void(Communicator&)>& body,
                                         const Config& config = {}) {
  return try_ranks(
      static_cast<int>(hosts.size()),
      [&](Communicator& world) {
        Communicator communicator = on_hosts(world, hosts);
        body(communicator);
      },
      config);
}

inline void run_on_hosts(const Table& hosts, const std::function<void(Communicator&)>& body,
                         const Config& config = {}) {
  const auto outcomes = try_on_hosts(hosts, body, config);
  for (const auto& outcome : outcomes) {
    if (outcome.failed())
      throw std::runtime_error("hosts " + Catch::StringMaker<Table>::convert(hosts) + ": " + outcome.error);
  }
}

}  // namespace rondo::testing
