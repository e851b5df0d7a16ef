#pragma once

#include <array>
#include <cstdint>

#include "bench/tune/constants.hpp"

namespace rondo::bench {

/// The model's constants as they are here and now, without any code of a library in them: what the model says with
/// these the machine takes at least.
///
/// A line of memory goes from core to core and back; two processes yield a core to each other; two ends of a TCP
/// connection, in one thread, send and receive 8 B, and receive where there is nothing; two threads, on two cores, do
/// so. For bytes both cores copy, copy out of another process, and send and receive at the same time, memory of several
/// sizes: a byte in a core's caches takes less than one beyond them. Each is the least of some trials. That a byte
/// takes longer where another core has written it last is left out.
class Machine {
 public:
  /// Takes about half a second. Throws std::system_error.
  Machine();

  /// While what so many ranks read and write comes to so many bytes.
  Constants constants(std::uint64_t all, int ranks) const;

 private:
  /// Nanoseconds a byte.
  struct Rates {
    std::uint64_t up_to = 0;
    double access = 0;
    double pull = 0;  ///< infinite: not allowed
    double socket = 0;
  };

  const Rates& rates_for(std::uint64_t all) const;

  double line_ = 0;
  double turn_ = 0;
  double send_ = 0;
  double receive_ = 0;
  double vain_ = 0;
  double one_way_ = 0;  ///< 8 B from core to core by TCP
  std::array<Rates, 4> rates_;
};

}  // namespace rondo::bench
