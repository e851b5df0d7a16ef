#include "transport/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace rondo::detail {
namespace {

constexpr std::size_t kAnything = std::numeric_limits<std::size_t>::max();

/// Of one cgroup.
struct Files {
  const char* limit;
  const char* used;
  const char* swap_limit;
  const char* swap_used;
  const char* active;  ///< pages of files, in memory.stat
  const char* inactive;
};
constexpr Files kFiles[] = {
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "", "", "total_active_file", "total_inactive_file"},
    {"/memory.max", "/memory.current", "/memory.swap.max", "/memory.swap.current", "active_file", "inactive_file"},
};
const Files& files_of(int version) { return kFiles[version - 1]; }

/// Nothing: it is none, or stands for no limit.
std::optional<std::size_t> bytes_in(std::string_view text) {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;  // version 1 rounds the largest number down
  std::uint64_t bytes = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), bytes).ec != std::errc{} || bytes >= kUnlimited)
    return {};
  return bytes;
}

/// "name 123", in a line of its own; 0: it is not there.
std::size_t statistic(std::string_view lines, std::string_view name) {
  for (std::size_t at = lines.find(name); at != std::string_view::npos; at = lines.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || lines[at - 1] == '\n') && end < lines.size() && lines[end] == ' ') {
      return bytes_in(lines.substr(end + 1)).value_or(0);
    }
  }
  return 0;
}

std::string_view next_part(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string cgroup_in(std::string_view lines, std::string_view controller) {
  while (!lines.empty()) {
    std::string_view line = next_part(lines, '\n');  // "4:cpu,cpuacct:/path", "0::/path"
    next_part(line, ':');
    std::string_view controllers = next_part(line, ':');
    bool found = controllers == controller;
    while (!controllers.empty()) found |= next_part(controllers, ',') == controller;
    if (found) return std::string(line);
  }
  return {};
}

std::string own_cgroup(std::string_view controller) { return cgroup_in(text_of_file("/proc/self/cgroup"), controller); }

std::vector<std::string> cgroup_directories(const std::string& mount, std::string path) {
  std::vector<std::string> directories;
  for (; path.starts_with('/') && path != "/"; path.resize(path.rfind('/'))) directories.push_back(mount + path);
  directories.push_back(mount);
  return directories;
}

CgroupMemory::CgroupMemory(const std::string& root, const std::string& path, const std::string& path_in_v1) {
  find_limits(root, path, 2);
  find_limits(root + "/memory", path_in_v1, 1);
}

void CgroupMemory::find_limits(const std::string& mount, const std::string& path, int version) {
  for (std::string& directory : cgroup_directories(mount, path)) {
    if (bytes_in(text_of_file(directory + files_of(version).limit)))
      limited_.push_back({std::move(directory), version});
  }
}

std::size_t CgroupMemory::left(std::size_t free_swap) const {
  std::size_t least = kAnything;
  for (const auto& [directory, version] : limited_) {
    const Files& files = files_of(version);
    const auto read = [&directory = directory](const char* file) { return text_of_file(directory + file); };
    const auto limit = bytes_in(read(files.limit));
    const auto used = bytes_in(read(files.used));
    if (!limit || !used) continue;
    std::size_t swap = free_swap;
    if (const auto most = bytes_in(read(files.swap_limit))) {
      swap = std::min(swap, *most - std::min(*most, bytes_in(read(files.swap_used)).value_or(0)));
    }
    const std::string pages = read("/memory.stat");
    const std::size_t room = *limit + statistic(pages, files.active) + statistic(pages, files.inactive) + swap;
    least = std::min(least, room - std::min(room, *used));
  }
  return least;
}

}  // namespace rondo::detail
