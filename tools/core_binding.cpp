#include "tools/core_binding.hpp"

#include <fstream>

#include <fmt/format.h>

#include "runtime/cores.hpp"
#include "tools/process.hpp"

namespace rondo::detail {
namespace {

std::vector<int> hardware_threads_beside(int cpu) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string text;
  std::getline(file, text);
  auto cpus = parse_cpu_list(text);
  if (cpus.empty()) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

std::vector<Core> bindable_cores() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) throw_errno("--bind-to core: cannot read the affinity");
  std::vector<Core> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<unsigned>(cpu), &usable)) continue;
    Core core{};
    for (const int thread : hardware_threads_beside(cpu)) {
      if (thread >= CPU_SETSIZE || !CPU_ISSET(static_cast<unsigned>(thread), &usable)) continue;
      CPU_SET(static_cast<unsigned>(thread), &core.cpus);
      CPU_CLR(static_cast<unsigned>(thread), &usable);
      core.name += fmt::format("{}{}", core.name.empty() ? "cpu " : ",", thread);
    }
    cores.push_back(core);
  }
  return cores;
}

}  // namespace rondo::detail
