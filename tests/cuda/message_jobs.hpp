#pragma once

#include <string>
#include <vector>

#include "tests/cuda/device_ranks.hpp"

// Jobs of tests/cuda/message_rank.cpp.

namespace rondo::test {

/// Longer messages are none that go without their receiver, which have tests of their own.
inline std::vector<std::string> with_long_messages(std::vector<std::string> variables) {
  variables.emplace_back("RONDO_EAGER_LIMIT=64");
  return variables;
}

inline Launched::Ended run_messages(int number, const std::string& act,
                                    const std::vector<std::string>& variables = {}) {
  return run_ranks(MESSAGE_RANK, number, act, with_long_messages(variables));
}

inline void check_messages(int number, const std::string& act, const std::vector<std::string>& variables = {}) {
  check_ranks(MESSAGE_RANK, number, act, with_long_messages(variables));
}

}  // namespace rondo::test
