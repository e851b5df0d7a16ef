#include "bench/program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

namespace rondo::bench {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t got = read(descriptor, part.data(), part.size());
    if (got > 0)
      text.append(part.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR)
      return text;
  }
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

Outcome run_program(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(fmt::format("pipe: {}", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Outcome outcome;
  if (error == 0) outcome.output = read_all(ends[0]);
  close(ends[0]);
  if (error != 0) throw std::runtime_error(fmt::format("cannot start {}: {}", command[0], std::strerror(error)));

  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

}  // namespace rondo::bench
