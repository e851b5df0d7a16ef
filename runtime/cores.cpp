#include "runtime/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>

#include "transport/cgroup.hpp"

namespace rondo::detail {
namespace {

long number(std::string_view text) {
  long value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int quota() { return cores_of_cgroups(kCgroups, own_cgroup(""), own_cgroup("cpu")); }

}  // namespace

int cores_of_cgroups(const std::string& root, const std::string& path, const std::string& path_in_v1) {
  int cores = 0;
  const auto limit_to = [&cores](int limit) {
    if (limit > 0) cores = cores > 0 ? std::min(cores, limit) : limit;
  };
  for (const std::string& directory : cgroup_directories(root, path)) {
    limit_to(cores_of_quota(text_of_file(directory + "/cpu.max")));
  }
  for (const std::string& directory : cgroup_directories(root + "/cpu", path_in_v1)) {
    limit_to(
        cores_of_quota(text_of_file(directory + "/cpu.cfs_quota_us"), text_of_file(directory + "/cpu.cfs_period_us")));
  }
  return cores;
}

int cores_of_quota(std::string_view quota_us, std::string_view period_us) {
  const long quota = number(quota_us);
  const long period = number(period_us);
  return quota > 0 && period > 0 ? static_cast<int>((quota + period - 1) / period) : 0;
}

int cores_of_quota(std::string_view cpu_max) {
  const auto space = cpu_max.find(' ');
  return space == std::string_view::npos ? 0 : cores_of_quota(cpu_max.substr(0, space), cpu_max.substr(space + 1));
}

int cores_of_host() {
  const int online = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const int limit = quota();
  return limit > 0 ? std::min(online, limit) : online;
}

std::string own_affinity() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::string affinity;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return affinity;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    affinity.resize(core, '0');
    affinity += '1';
  }
  return affinity;
}

int usable_cores() {
  const std::string affinity = own_affinity();
  const int count = static_cast<int>(std::count(affinity.begin(), affinity.end(), '1'));
  const int limit = quota();
  return std::max(1, limit > 0 ? std::min(count, limit) : count);
}

std::vector<int> cores_of_affinity(std::string_view affinity) {
  std::vector<int> cores;
  for (std::size_t core = 0; core < affinity.size(); ++core) {
    if (affinity[core] == '1') cores.push_back(static_cast<int>(core));
  }
  return cores;
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const char* const end = part.data() + part.size();
    int first = 0;
    auto [rest, error] = std::from_chars(part.data(), end, first);
    if (error != std::errc{}) continue;
    int last = first;
    if (rest != end && *rest == '-') std::from_chars(rest + 1, end, last);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

bool move_to_core(int core) noexcept {
  cpu_set_t mine, one, now;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0 || !CPU_ISSET(static_cast<std::size_t>(core), &mine))
    return false;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return false;
  // It had to wait for its turn there.
  if (::sched_getaffinity(0, sizeof now, &now) == 0 && !CPU_EQUAL(&now, &one)) return false;
  if (::sched_setaffinity(0, sizeof mine, &mine) == 0) return true;
  std::memset(&mine, 0xff, sizeof mine);  // those cores are no longer to be had: all that are
  ::sched_setaffinity(0, sizeof mine, &mine);
  return false;
}

}  // namespace rondo::detail
