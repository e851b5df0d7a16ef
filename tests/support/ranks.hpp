#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/communicator.hpp>
#include <rondo/config.hpp>
#include <rondo/error.hpp>

namespace rondo::testing {

/// What a rank's body threw; empty: it returned.
struct Outcome {
  std::string error;
  Errc code{};
  bool failed() const { return !error.empty(); }
};

/// Runs `body` as each of `size` ranks, one thread each, over real connections of one job. Catch2's macros are not
/// thread safe: bodies throw (see `require`) or return, and the test thread asserts.
std::vector<Outcome> try_ranks(int size, const std::function<void(Communicator&)>& body, const Config& config = {});

/// The same with a configuration for each rank.
std::vector<Outcome> try_ranks(const std::vector<Config>& configs, const std::function<void(Communicator&)>& body);

/// The same, and throws what a rank threw, with its rank: the first that failed other than by hearing of one.
void run_ranks(int size, const std::function<void(Communicator&)>& body, const Config& config = {});

/// A new communicator of all ranks, which take it from here on that they are on these hosts: by rank, -1 for one that
/// shares memory with nobody. A collective call.
Communicator on_hosts(Communicator& world, const std::vector<int>& hosts);

/// Lets other threads get ahead, or not.
inline void dawdle(std::minstd_rand& random) {
  std::atomic<std::uint64_t> spin{random() % 8 == 0 ? random() % 20'000 : 0};
  while (spin > 0) --spin;
}

/// For bodies: throws std::runtime_error{what} unless `condition`. Where it is asked of every element, `what` had
/// better be no string that is put together each time.
inline void require(bool condition, std::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

}  // namespace rondo::testing
