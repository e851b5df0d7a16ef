#include "tools/job_cgroup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

namespace rondo::detail {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

/// The path of this process in the hierarchy whose /proc/self/cgroup line has these controllers ("" is version 2).
std::string path_in_hierarchy(std::string_view controllers) {
  std::istringstream lines(read_file("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (std::string_view(line).substr(first + 1, second - first - 1) == controllers) return line.substr(second + 1);
  }
  return {};
}

/// This process' directory in the hierarchy of this file system type (and mount option), empty when it is not mounted.
fs::path own_directory(std::string_view type, std::string_view controllers) {
  const std::string path = path_in_hierarchy(controllers);
  if (path.empty()) return {};
  std::istringstream lines(read_file("/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, mount_point, field, mounted_type, source, options;
    fields >> id >> parent >> device >> root >> mount_point;
    while (fields >> field && field != "-") continue;
    fields >> mounted_type >> source >> options;
    if (mounted_type != type) continue;
    if (!controllers.empty() && options.find(controllers) == std::string::npos) continue;
    std::string_view below = path;
    if (root != "/" && below.starts_with(root)) below.remove_prefix(root.size());
    while (below.starts_with('/')) below.remove_prefix(1);
    return below.empty() ? fs::path(mount_point) : fs::path(mount_point) / below;
  }
  return {};
}

/// Only directories can be removed in this file system, its files are not ours; so not std::filesystem::remove_all.
void remove_tree(const fs::path& directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (entry.is_directory(ignored)) remove_tree(entry.path());
  }
  ::rmdir(directory.c_str());
}

void write_text(int fd, std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

}  // namespace

JobCgroup::JobCgroup(const std::string& name) {
  const fs::path own = own_directory("cgroup2", "");
  if (!own.empty()) path_ = own / name;
}

void JobCgroup::create() {
  std::error_code error;
  if (path_.empty() || !fs::create_directory(path_, error)) return;
  const Descriptor kill(::open((path_ / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (kill) members_ = Descriptor(::open((path_ / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!members_) remove();
}

void JobCgroup::enter() const {
  if (members_) write_text(members_.get(), "0");
}

void JobCgroup::kill() const {
  if (path_.empty()) return;
  const Descriptor kill(::open((path_ / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (kill) write_text(kill.get(), "1");
}

void JobCgroup::remove() const {
  if (!path_.empty()) remove_tree(path_);
}

OomKills OomKills::now() {
  std::string group = read_file(own_directory("cgroup2", "") / "memory.events");
  if (group.empty()) group = read_file(own_directory("cgroup", "memory") / "memory.oom_control");
  return {parse_oom_kills(group), parse_oom_kills(read_file("/proc/vmstat"))};
}

std::uint64_t parse_oom_kills(std::string_view text) {
  constexpr std::string_view kWord = "oom_kill ";
  for (auto at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::uint64_t count = 0;
    std::from_chars(text.data() + at + kWord.size(), text.data() + text.size(), count);
    return count;
  }
  return 0;
}

}  // namespace rondo::detail
