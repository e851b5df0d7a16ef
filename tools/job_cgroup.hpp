#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// A control group (version 2) around one attempt's ranks, where this user may create one: the one way to kill all of
/// them in a single step, however fast they fork. Everything here does nothing where that is not possible.
class JobCgroup {
 public:
  /// Only names it, below this process' own group: guardian and launcher both know the path, whichever has to remove
  /// it.
  explicit JobCgroup(const std::string& name);

  void create();
  /// For a rank, before it runs its program: moves itself.
  void enter() const;
  void kill() const;
  /// Also groups that the ranks made inside. Fails while a process is left in it.
  void remove() const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;  ///< empty: no such hierarchy here
  Descriptor members_;          ///< cgroup.procs, open from create() on
};

/// How often the kernel ended a process for want of memory: in this process' own control group, and on this host.
struct OomKills {
  std::uint64_t group = 0;
  std::uint64_t host = 0;

  static OomKills now();
};

/// The number behind "oom_kill" in memory.events, memory.oom_control or vmstat; 0 where there is none.
std::uint64_t parse_oom_kills(std::string_view text);

}  // namespace rondo::detail
