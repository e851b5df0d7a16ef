#include "transport/cgroup.hpp"

#include <algorithm>
#include <array>
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

/// Of one cgroup; "": there is none.
struct Files {
  const char* limit;
  const char* used;
  const char* swap_limit;
  const char* swap_used;
  const char* both_limit;  ///< of memory and swap together
  const char* both_used;
  std::array<const char*, 3> droppable;  ///< in memory.stat: what the system gives up when it needs room
};
constexpr Files kFiles[] = {
    {"/memory.limit_in_bytes",
     "/memory.usage_in_bytes",
     "",
     "",
     "/memory.memsw.limit_in_bytes",
     "/memory.memsw.usage_in_bytes",
     {"total_active_file", "total_inactive_file", "slab_reclaimable"}},
    {"/memory.max",
     "/memory.current",
     "/memory.swap.max",
     "/memory.swap.current",
     "",
     "",
     {"active_file", "inactive_file", "slab_reclaimable"}},
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

bool CgroupMemory::leave(std::size_t bytes, std::size_t free_swap) const {
  return std::all_of(limited_.begin(), limited_.end(), [&](const Limited& limited) {
    const Files& files = files_of(limited.version);
    const auto read = [&](const char* file) {
      return *file == '\0' ? std::string() : text_of_file(limited.directory + file);
    };
    // Nothing: there is no limit.
    const auto left_of = [&](const char* limit_file, const char* used_file) -> std::optional<std::size_t> {
      const auto limit = bytes_in(read(limit_file));
      const auto used = bytes_in(read(used_file));
      if (!limit || !used) return {};
      return *limit - std::min(*limit, *used);
    };
    const auto left = left_of(files.limit, files.used);
    if (!left) return true;
    const std::size_t swap = std::min(free_swap, left_of(files.swap_limit, files.swap_used).value_or(kAnything));
    const std::size_t both = left_of(files.both_limit, files.both_used).value_or(kAnything);
    if (bytes <= std::min(*left, both)) return true;
    const std::string pages = read("/memory.stat");
    std::size_t droppable = 0;
    for (const char* const name : files.droppable) droppable += statistic(pages, name);
    return bytes <= std::min(*left + swap, both) + droppable;
  });
}

}  // namespace rondo::detail
