#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::detail {

/// Where the system mounts the groups of processes to which it gives cores and memory.
inline constexpr const char* kCgroups = "/sys/fs/cgroup";

/// The path of a process's cgroup ("/a/b"), out of what the system tells of it in /proc/self/cgroup: in version 1 by a
/// controller, in version 2, which is "", the one for all. Empty: there is none.
std::string cgroup_in(std::string_view lines, std::string_view controller);
std::string own_cgroup(std::string_view controller);

/// The directory of a cgroup below `mount`, and of all above it: where limits may stand that hold for it. A container
/// may see its own as the root, whatever its path.
std::vector<std::string> cgroup_directories(const std::string& mount, std::string path);

/// Empty: there is no such file, or none that can be read.
std::string text_of_file(const std::string& path);

/// What the cgroups of a process leave it of the machine's memory. (Not those that it is moved to later.)
class CgroupMemory {
 public:
  /// Mounted at `root`, with the process's paths in versions 2 and 1. Which of them have limits is found out here.
  CgroupMemory(const std::string& root, const std::string& path, const std::string& path_in_v1);

  /// Whether it may be given so many bytes, with what the system would make room for: it drops what of files it can
  /// read again, and swaps out up to `free_swap` of other bytes.
  bool leave(std::size_t bytes, std::size_t free_swap) const;

 private:
  struct Limited {
    std::string directory;
    int version;
  };
  void find_limits(const std::string& mount, const std::string& path, int version);

  std::vector<Limited> limited_;
};

}  // namespace rondo::detail
