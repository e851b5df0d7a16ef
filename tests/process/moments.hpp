#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include <rondo/error.hpp>

namespace rondo::testing {

/// What a rank does or hears, on standard output: "WORD at MILLISECONDS REST", by one clock for all ranks.
inline void say_now(const std::string& what) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const auto space = what.find(' ');
  std::printf("%s at %lld%s\n", what.substr(0, space).c_str(), static_cast<long long>(milliseconds),
              space == std::string::npos ? "" : what.substr(space).c_str());
  std::fflush(stdout);
}

/// "error at MILLISECONDS CODE peer RANK: TEXT".
inline void say_now(const Error& error) {
  say_now("error " + std::string(to_string(error.code())) + " peer " + std::to_string(error.peer()) + ": " +
          error.what());
}

}  // namespace rondo::testing
