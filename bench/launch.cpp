#include "bench/launch.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/program.hpp"
#include "bench/progress_bar.hpp"
#include "bench/report.hpp"

namespace rondo::bench {

std::string find_launcher() {
  // Installed, both programs lie in one folder; in a build tree in bench/ and tools/.
  if (auto path = find_companion("rondo-run", {"../tools"})) return *path;
  throw std::runtime_error(fmt::format("-n needs rondo-run, which is neither beside {} nor on PATH", own_path()));
}

void start_ranks(const Settings& settings, const std::vector<std::string>& arguments) {
  if (std::getenv("RONDO_RANK") != nullptr)
    throw UsageError(fmt::format("-n {}: this process is already a rank of a job; leave -n out", *settings.ranks));
  check_against(settings, *settings.ranks);
  check_device(settings.device);
  check_reports(settings);

  std::vector<std::string> command{find_launcher(), "-n", std::to_string(*settings.ranks),
                                   "--no-prefix",   "--", own_path()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.emplace_back("--started");
  if (const std::string terminal = terminal_path(); !terminal.empty())
    command.insert(command.end(), {"--progress", terminal});

  std::vector<char*> words;
  for (auto& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  execv(words[0], words.data());
  throw std::runtime_error(fmt::format("cannot run {}: {}", command[0], std::strerror(errno)));
}

}  // namespace rondo::bench
