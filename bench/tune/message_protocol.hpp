#pragma once

#include <cstdint>
#include <string>

#include <rondo/config.hpp>

#include "bench/compare/contender.hpp"

namespace rondo::bench {

/// A message between two ranks.
struct MessageQuestion {
  std::uint64_t bytes = 0;
  Path path = Path::shm;
  bool oversubscribed = false;
  bool allocated = false;  ///< its sender's buffer is from rondo::allocate
};

/// How it goes, by which bound, and how longer and shorter ones do; `config` as of the ranks. Of shared memory both
/// cases: whether the receiver can read the sender's memory is found out when two ranks connect.
std::string message_text(const MessageQuestion& question, const Config& config);

}  // namespace rondo::bench
