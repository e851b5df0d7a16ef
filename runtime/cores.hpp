#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::detail {

/// Cores this process may use: its affinity mask, cut to the CPU quota of its cgroup (v1 or v2); at least 1.
int usable_cores();

/// The cores that this process may use, by number: "101" are the first and the third. Not cut to any quota.
std::string own_affinity();

/// The numbers of the cores of such a text.
std::vector<int> cores_of_affinity(std::string_view affinity);
inline std::vector<int> own_cores() { return cores_of_affinity(own_affinity()); }

/// "0,2-3" -> {0, 2, 3}, as the kernel writes lists of cores.
std::vector<int> parse_cpu_list(const std::string& text);

/// Cores that the processes of this host or container can use together: online, and within the CPU quota. Other than
/// `usable_cores` the same for all of them, whatever each is bound to.
int cores_of_host();

/// Cores that a cgroup-v2 `cpu.max` allows ("150000 100000" -> 2), or the two files of v1; 0: no limit.
int cores_of_quota(std::string_view cpu_max);
int cores_of_quota(std::string_view quota_us, std::string_view period_us);

/// Cores that the cgroups mounted at `root` allow a process whose own has these paths there, in v2 and v1 ("/a/b"; "":
/// not known), by the least quota of it and those above; 0: no limit.
int cores_of_cgroups(const std::string& root, const std::string& path, const std::string& path_in_v1);

/// Moves this thread to a core, from where the system may move it on as before. False: it may not use that, or has been
/// bound by somebody else meanwhile. To the system the thread has then asked for the cores that it could use until now:
/// those that its cpuset gains afterwards it does not get by itself.
bool move_to_core(int core) noexcept;

}  // namespace rondo::detail
