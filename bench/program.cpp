#include "bench/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace rondo::bench {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::optional<std::string> find_on_path(const std::string& name) {
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "/usr/bin:/bin" : variable;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / name;
    if (is_program(candidate)) return candidate.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

std::optional<std::string> find_companion(const std::string& name, const std::vector<std::string>& folders) {
  const fs::path here = fs::path(own_path()).parent_path();
  if (is_program(here / name)) return (here / name).string();
  for (const auto& folder : folders) {
    const fs::path candidate = (here / folder / name).lexically_normal();
    if (is_program(candidate)) return candidate.string();
  }
  return find_on_path(name);
}

}  // namespace rondo::bench
