#include "bench/compare/core_distance.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "bench/two_cores.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct alignas(128) CacheLine {
  std::atomic<unsigned> turn{0};
};

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
  const auto cores = first_two_cores();
  if (!cores) return 0;
  CacheLine there, back;
  std::atomic<bool> over{false};
  std::thread other([&] {
    const OnCore second((*cores)[1]);
    for (unsigned seen = 0; !over.load(std::memory_order_relaxed);) {
      const unsigned turn = there.turn.load(std::memory_order_acquire);
      if (turn != seen) back.turn.store(seen = turn, std::memory_order_release);
    }
  });
  const OnCore first((*cores)[0]);
  const double found = fastest(there, back);
  over.store(true, std::memory_order_relaxed);
  other.join();
  return found;
}

CoreDistance::CoreDistance(Measure measure, double patience_seconds)
    : measure_(std::move(measure)), patience_seconds_(patience_seconds) {}

double CoreDistance::now() {
  const double found = measure_();
  if (found > 0) least_ = least_ == 0 ? found : std::min(least_, found);
  return found;
}

double CoreDistance::settle() {
  const auto begin = Clock::now();
  for (;;) {
    const double found = now();
    if (found == 0) return found;
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (is_near(found) || waited.count() >= patience_seconds_) return settled_at_.emplace_back(found);
  }
}

int CoreDistance::settled() const noexcept { return static_cast<int>(settled_at_.size()) - apart(); }

int CoreDistance::apart() const noexcept {
  return static_cast<int>(
      std::count_if(settled_at_.begin(), settled_at_.end(), [this](double found) { return !is_near(found); }));
}

}  // namespace rondo::bench
