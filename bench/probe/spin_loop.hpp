#pragma once

// What a kernel does that waits for other processes' kernels, as no kernel of rondo may. For nvcc and for the host's
// compiler.

#include "cuda/kernels/element_loops.hpp"

namespace rondo::bench {

inline constexpr unsigned kMostSpinners = 8;

/// What a kernel takes that goes through a chain by itself: the words of all ranks, by which they tell each other how
/// far they are.
struct SpinArguments {
  unsigned* words[kMostSpinners];
  unsigned* gave_up;  ///< not 0: one of them has
  unsigned rank;
  unsigned ranks;
  unsigned rounds;
  unsigned long long clocks;  ///< after that it gives up, so that it never keeps a device for ever
};

/// By one thread. `Machine` loads and stores what other processes do, and has a clock.
template <typename Machine>
RONDO_CUDA_INLINE void spin_loop(const SpinArguments& a, cuda::Lane lane) {
  if (lane.index != 0) return;
  const unsigned before = (a.rank + a.ranks - 1) % a.ranks;
  const unsigned long long begin = Machine::clock();
  for (unsigned round = 0; round < a.rounds; ++round) {
    const unsigned wanted = round + (a.rank == 0 ? 0 : 1);
    while (Machine::load(a.words[before]) < wanted) {
      if (Machine::load(a.gave_up) != 0) return;
      if (Machine::clock() - begin > a.clocks) return Machine::store(a.gave_up, 1);
      Machine::pause();
    }
    Machine::store(a.words[a.rank], round + 1);
  }
}

}  // namespace rondo::bench
