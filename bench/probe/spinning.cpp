// From one process's kernel to the next one's, by kernels that wait for each other: what processes that share a device
// should not do. Each kernel gives up after so many clocks.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "bench/probe/item.hpp"
#include "bench/probe/probe_kernels.hpp"
#include "bench/probe/shared_words.hpp"
#include "bench/probe/spin_loop.hpp"

namespace rondo::bench {
namespace {

static_assert(kMostSpinners >= Board::kMostRanks);

unsigned* pointer(cuda::Address address) { return reinterpret_cast<unsigned*>(address); }

class Spinners {
 public:
  Spinners(const Part& part, const DeviceWords& words)
      : part_(part), words_(words), kernels_(part), spin_(kernels_.find("rondo_probe_spin")) {}

  /// Goes round so many times, on all ranks at once. Seconds from the first launch to the end of the last kernel.
  double go(unsigned rounds, unsigned long long clocks) const {
    clear();
    SpinArguments arguments{};
    for (int rank = 0; rank < part_.size; ++rank)
      arguments.words[static_cast<std::size_t>(rank)] = pointer(words_.of(rank));
    arguments.gave_up = pointer(gave_up());
    arguments.rank = static_cast<unsigned>(part_.rank);
    arguments.ranks = static_cast<unsigned>(part_.size);
    arguments.rounds = rounds;
    arguments.clocks = clocks;
    part_.barrier();
    const auto begin = Part::Clock::now();
    part_.launch(spin_, arguments, 1, 1);
    part_.stream.synchronize();
    part_.barrier();
    return seconds_since(begin);
  }

  /// One of the kernels did, in the last `go`.
  bool one_gave_up() const {
    std::uint32_t word = 0;
    part_.driver().must(part_.driver().cuMemcpyDtoHAsync, static_cast<void*>(&word), gave_up(), sizeof(word),
                        part_.stream.handle());
    part_.stream.synchronize();
    return word != 0;
  }

 private:
  cuda::Address gave_up() const { return words_.of(part_.size); }

  void clear() const {
    part_.barrier();
    for (int place = 0; part_.rank == 0 && place <= part_.size; ++place) {
      part_.driver().must(part_.driver().cuMemsetD8Async, words_.of(place), static_cast<unsigned char>(0),
                          sizeof(std::uint32_t), part_.stream.handle());
    }
    part_.stream.synchronize();
  }

  const Part& part_;
  const DeviceWords& words_;
  ProbeKernels kernels_;
  cuda::FunctionHandle spin_;
};

}  // namespace

void answer_spinning(const Part& part) {
  constexpr unsigned kRounds = 4;
  const auto clocks = part.pick(4'000'000'000ULL, 1'000'000'000ULL);
  const char* const what = "by kernels that wait for each other";
  DeviceWords words(part);
  {
    const Spinners spinners(part, words);
    std::vector<double> seconds;
    bool gave_up = false;
    for (int i = 0; i < part.pick(5, 2) && !gave_up; ++i) {
      seconds.push_back(spinners.go(kRounds, clocks));
      gave_up = spinners.one_gave_up();
    }
    if (part.rank == 0) {
      part.report(gave_up ? answered(what, fmt::format("gave up: not {} times round within {} clocks", kRounds, clocks))
                          : measured(what, 0, "us", microseconds(seconds, static_cast<double>(kRounds) * part.size)));
    }
  }
  words.close();
}

}  // namespace rondo::bench
