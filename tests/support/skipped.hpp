#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/support/catch.hpp"

namespace rondo::testing {

/// The running test case cannot be had here and is about to return: tools/test counts it as skipped, not as passed.
inline void skipped(std::string why) {
  std::replace(why.begin(), why.end(), '\n', ' ');
  std::printf("skipped: %s\t%s\n", Catch::getResultCapture().getCurrentTestName().c_str(), why.c_str());
}

}  // namespace rondo::testing
