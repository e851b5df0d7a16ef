#include "bench/two_cores.hpp"

#include <vector>

#include "runtime/cores.hpp"

namespace rondo::bench {

std::optional<std::array<int, 2>> first_two_cores() {
  const std::vector<int> cores = detail::own_cores();
  if (cores.size() < 2) return std::nullopt;
  return std::array{cores[0], cores[1]};
}

OnCore::OnCore(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(core), &one);
  moved_ = ::sched_getaffinity(0, sizeof before_, &before_) == 0 && ::sched_setaffinity(0, sizeof one, &one) == 0;
}

OnCore::~OnCore() {
  if (moved_) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace rondo::bench
