#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <rondo/config.hpp>

namespace rondo {

/// What a program may say of itself in code. Everything left out comes from the environment; what is given
/// here wins.
struct InitOptions {
  std::optional<int> rank{};  ///< give both or none
  std::optional<int> size{};

  /// Where the ranks meet: "env://" (as the launcher says), "tcp://host:port", "file:///path";
  /// tcp and file take "?rank=R&world_size=N". Empty: RONDO_INIT_METHOD, else env://.
  std::string method{};

  /// For all ranks to meet. Default: RONDO_INIT_TIMEOUT, else 300 s.
  std::optional<std::chrono::nanoseconds> timeout{};

  /// Instead of the RONDO_* knobs of the environment.
  std::optional<Config> config{};
};

}  // namespace rondo
