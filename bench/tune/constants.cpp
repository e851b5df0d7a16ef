#include "bench/tune/constants.hpp"

#include <cmath>

#include <fmt/format.h>

namespace rondo::bench {

std::string to_text(const Constants& constants, Path path, int cores) {
  const simulation::LogGP& network = constants.network(path);
  const ArenaModel& arena = constants.arena;
  const auto microseconds = [](simulation::Time time) { return static_cast<double>(time) / simulation::kMicrosecond; };
  return fmt::format(
      "by messages latency {:.3g} us, overhead {:.3g} us, gap {:.3g} us, {:.3g} ns a byte;\n"
      "       in shared memory call {:.3g} us, meeting {:.3g} us, {:.3g} ns a byte read or written\n"
      "       in a rank's buffers, {:.3g} ns where ranks share it, {} copied out of another process;\n"
      "       {} core{}, turn on one {:.3g} us{}\n",
      microseconds(network.latency), microseconds(network.overhead), microseconds(network.gap),
      network.gap_per_byte / 1e3, arena.call, arena.meeting, arena.access, arena.staged,
      std::isinf(arena.pull) ? "nothing" : fmt::format("{:.3g} ns a byte", arena.pull), cores, cores == 1 ? "" : "s",
      arena.turn, path == Path::tcp ? fmt::format(", after a vain look of {:.3g} us", constants.vain) : "");
}

}  // namespace rondo::bench
