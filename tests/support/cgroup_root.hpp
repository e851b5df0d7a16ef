#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.hpp"

namespace rondo::testing {

/// Where the system might mount its cgroups.
class CgroupRoot {
 public:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = directory() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string directory() const { return directory_ / "cgroup"; }

 private:
  TemporaryDirectory directory_;
};

/// From now on this process finds no cgroups but those that it writes to /sys/fs/cgroup itself. False: it may not.
inline bool hide_cgroups() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", "/sys/fs/cgroup", "tmpfs", 0, nullptr) == 0;
}

/// Whether a process like this one may.
inline bool may_hide_cgroups() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(hide_cgroups() ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace rondo::testing
