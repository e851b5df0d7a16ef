#include "tools/rank_environment.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "tools/guardian.hpp"
#include "tools/process.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {
namespace {

constexpr std::array kFreeForUsers = {std::string_view("MASTER_ADDR"), std::string_view("MASTER_PORT")};

/// Of an outer torchrun: it would send a torch script to a store that is not there.
constexpr std::string_view kNotInherited = "TORCHELASTIC_USE_AGENT_STORE";

std::string_view name_of(std::string_view assignment) { return assignment.substr(0, assignment.find('=')); }

bool is_regular_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable(const std::string& path) { return is_regular_file(path) && ::access(path.c_str(), X_OK) == 0; }

}  // namespace

std::vector<std::pair<std::string, std::string>> rank_variables(const JobFacts& job, int rank, int attempt) {
  const std::string number = std::to_string(rank), size = std::to_string(job.size), nth = std::to_string(attempt);
  return {
      {"RONDO_RANK", number},
      {"RONDO_SIZE", size},
      {"RONDO_LOCAL_RANK", number},
      {"RONDO_LOCAL_SIZE", size},
      {"RONDO_JOB_ID", job.id},
      {"RONDO_ATTEMPT", nth},
      {"RONDO_CONTROL_FD", std::to_string(kControlDescriptor)},
      {"RANK", number},
      {"WORLD_SIZE", size},
      {"LOCAL_RANK", number},
      {"LOCAL_WORLD_SIZE", size},
      {"GROUP_RANK", "0"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(job.meeting_port)},
      {"TORCHELASTIC_RUN_ID", job.id},
      {"TORCHELASTIC_RESTART_COUNT", nth},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
  };
}

bool is_set_per_rank(std::string_view name) {
  if (std::find(kFreeForUsers.begin(), kFreeForUsers.end(), name) != kFreeForUsers.end()) return false;
  const auto variables = rank_variables({}, 0, 0);
  return std::any_of(variables.begin(), variables.end(), [name](const auto& each) { return each.first == name; });
}

std::vector<std::string> make_environment(const std::vector<std::pair<std::string, std::string>>& variables,
                                          const std::vector<std::pair<std::string, std::string>>& exports) {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  std::erase_if(environment, [](const std::string& each) { return name_of(each) == kNotInherited; });
  for (const auto* list : {&variables, &exports}) {
    for (const auto& [name, value] : *list) {
      std::erase_if(environment, [&name = name](const std::string& each) { return name_of(each) == name; });
      environment.push_back(fmt::format("{}={}", name, value));
    }
  }
  return environment;
}

int find_free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket || ::bind(socket.get(), generic, length) != 0 || ::getsockname(socket.get(), generic, &length) != 0) {
    throw_errno("cannot find a free port on 127.0.0.1 for MASTER_PORT");
  }
  return ntohs(address.sin_port);
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return name;
    if (::access(name.c_str(), F_OK) != 0) throw LaunchError(fmt::format("{}: no such file", name), kNotFound);
    throw LaunchError(
        fmt::format("{}: {}", name, is_regular_file(name) ? "not executable (permission denied)" : "not a file"),
        kNotExecutable);
  }
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  std::string not_executable;
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string file = (directory.empty() ? "." : directory) + "/" + name;
    if (is_executable(file)) return file;
    if (is_regular_file(file) && not_executable.empty()) not_executable = file;
  }
  if (!not_executable.empty()) {
    throw LaunchError(fmt::format("{}: not executable (permission denied)", not_executable), kNotExecutable);
  }
  const char* const hint = is_executable("./" + name) ? "; there is one here: ./" : "";
  throw LaunchError(fmt::format("{}: not found in PATH{}{}", name, hint, *hint != '\0' ? name : ""), kNotFound);
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [kPlain](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace rondo::detail
