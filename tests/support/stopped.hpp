#pragma once

#include <sys/types.h>

#include <fstream>
#include <iterator>
#include <string>

namespace rondo::testing {

/// By a signal, as the system tells.
inline bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end, 3) == ") T";
}

}  // namespace rondo::testing
