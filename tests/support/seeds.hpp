#pragma once

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

namespace rondo::testing {

/// TEST_MORE_SEEDS=N: N times as many as usual, for a long run.
inline std::uint64_t more_seeds(std::uint64_t usual) {
  const char* const times = std::getenv("TEST_MORE_SEEDS");
  return usual * (times == nullptr ? 1 : std::stoull(times));
}

/// `run(seed)` for each from 1 on, or RONDO_TEST_SEED=N alone. What it throws is thrown with its seed.
template <typename Run>
void for_seeds(std::uint64_t usual, const Run& run) {
  const char* const one = std::getenv("RONDO_TEST_SEED");
  const std::uint64_t first = one == nullptr ? 1 : std::stoull(one);
  const std::uint64_t last = one == nullptr ? more_seeds(usual) : first;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    try {
      run(seed);
    } catch (const std::exception& error) {
      throw std::runtime_error("RONDO_TEST_SEED=" + std::to_string(seed) + ": " + error.what());
    }
  }
}

}  // namespace rondo::testing
