#pragma once

#include <array>
#include <cstdint>

#include "bench/tune/constants.hpp"

namespace rondo::bench {

/// The model's constants as they are here and now, with none of the library's protocols in them: what the model says
/// with these is of the machine.
class Machine {
 public:
  /// Nanoseconds a byte, where so many are in use: in a core's caches it takes less than beyond them. That a byte takes
  /// longer where another core has written it last is left out.
  struct Rates {
    std::uint64_t up_to = 0;
    double access = 0;  ///< both cores copy, each its own: for one read or written
    double pull = 0;    ///< both copy out of another process; infinite: that is not allowed
    double socket = 0;  ///< both send to themselves through TCP and receive: for each of the two
  };
  /// Microseconds.
  struct Figures {
    double line = 0;     ///< of memory, from core to core; 0: there are not two
    double turn = 0;     ///< two processes yield a core to each other
    double message = 0;  ///< 8 B are sent through TCP on loopback, and received, on one core
    double vain = 0;     ///< a look where nothing has come
    double one_way = 0;  ///< 8 B through TCP from core to core
    std::array<Rates, 4> rates;
  };

  /// Measures them, which takes about half a second: calls of the system by their medians, all else by the least of
  /// some trials. Throws std::system_error.
  Machine();
  explicit Machine(const Figures& figures) : figures_(figures) {}

  /// For ranks of which each has so many bytes in its longest buffer.
  Constants constants(std::uint64_t bytes, int ranks) const;

 private:
  const Rates& rates_for(std::uint64_t all) const;

  const Figures figures_;
};

}  // namespace rondo::bench
