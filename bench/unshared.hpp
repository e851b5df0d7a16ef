#pragma once

#include <cstddef>
#include <string>

#include <rondo/communicator.hpp>

#include "bench/settings.hpp"

namespace rondo::bench {

/// What ranks that measure do without shared memory, and why; empty: they have it, or do not ask for it.
struct Unshared {
  std::string collectives = {};  ///< which go by messages
  std::string buffers = {};      ///< of so many bytes and more
  std::size_t buffers_from = 0;
};

/// Every rank calls it, and tries; rank 0 hears of all.
Unshared unshared_in_use(Communicator& world, const Settings& settings);

/// "# collectives by messages: rank 0 could not make ...": a line for each.
std::string unshared_lines(const Unshared& unshared);

}  // namespace rondo::bench
