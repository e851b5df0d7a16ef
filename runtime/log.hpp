#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <rondo/config.hpp>

#include "transport/printable.hpp"

namespace rondo::detail {

/// Where a rank says what is worth saying: one line per event, `rondo: rank 2: text`, to stderr. Silent on
/// success: the default level is warn. A value; many ranks of one process have one each.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view line)>;

  /// `rank` -1: not known (yet), or not a rank. Without a sink lines go to stderr, each in one write.
  explicit Log(LogLevel level = LogLevel::warn, int rank = -1, Sink sink = {});

  bool enabled(LogLevel level) const noexcept { return level <= level_; }

  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::error)) write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::warn)) write(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::info)) write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::debug)) write(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write(LogLevel level, std::string_view text) const;

  LogLevel level_;
  std::string prefix_;
  Sink sink_;
};

}  // namespace rondo::detail
