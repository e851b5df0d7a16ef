#include "bench/compare/core_distance.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct alignas(128) CacheLine {
  std::atomic<unsigned> turn{0};
};

void move_to(std::size_t core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

// The fastest of some hundreds of exchanges, in the others of which a thread may have lost its core.
double fastest(CacheLine& there, CacheLine& back) {
  constexpr int kExchanges = 500;
  constexpr auto kLong = std::chrono::milliseconds(5);
  unsigned turn = 0;
  double least = 0;
  for (const auto end = Clock::now() + kLong; Clock::now() < end;) {
    const auto begin = Clock::now();
    for (int i = 0; i < kExchanges; ++i) {
      there.turn.store(++turn, std::memory_order_release);
      while (back.turn.load(std::memory_order_acquire) != turn) continue;
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    const double one_way = took.count() / (2.0 * kExchanges);
    least = least == 0 ? one_way : std::min(least, one_way);
  }
  return least;
}

}  // namespace

double CoreDistance::between_first_two_cores() {
  const std::string affinity = detail::own_affinity();
  const std::size_t first = affinity.find('1');
  const std::size_t second = first == std::string::npos ? first : affinity.find('1', first + 1);
  cpu_set_t mine;
  if (second == std::string::npos || ::sched_getaffinity(0, sizeof mine, &mine) != 0) return 0;

  CacheLine there, back;
  std::atomic<bool> over{false};
  std::thread other([&] {
    move_to(second);
    for (unsigned seen = 0; !over.load(std::memory_order_relaxed);) {
      const unsigned turn = there.turn.load(std::memory_order_acquire);
      if (turn != seen) back.turn.store(seen = turn, std::memory_order_release);
    }
  });
  move_to(first);
  const double found = fastest(there, back);
  over.store(true, std::memory_order_relaxed);
  other.join();
  ::sched_setaffinity(0, sizeof mine, &mine);
  return found;
}

CoreDistance::CoreDistance(Measure measure, double patience_seconds)
    : measure_(std::move(measure)), patience_seconds_(patience_seconds) {}

void CoreDistance::settle() {
  const auto begin = Clock::now();
  for (;;) {
    const double found = measure_();
    if (found == 0) return;
    least_ = least_ == 0 ? found : std::min(least_, found);
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (found <= kApart * least_ || waited.count() >= patience_seconds_) {
      ++(found <= kApart * least_ ? settled_ : apart_);
      return;
    }
  }
}

}  // namespace rondo::bench
