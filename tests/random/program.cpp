#include "tests/random/program.hpp"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>

namespace rondo::testing {
namespace {

constexpr std::size_t KiB = 1024;

/// The same numbers wherever it is compiled.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t operator()() { return engine_(); }
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  int rank_below(int size) { return static_cast<int>(below(static_cast<std::size_t>(size))); }
  bool one_in(std::size_t times) { return below(times) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[below(of.size())];
  }
  /// Bytes: none, few, about where something changes, many.
  std::size_t bytes() {
    switch (below(8)) {
      case 0: return 0;
      case 1: return below(9);
      case 2: return below(200);
      case 3: return below(3 * KiB);
      case 4: return one_in(3) ? pick({512 * KiB, 1024 * KiB}) : below(40 * KiB);
      default: return pick({16 * KiB, 32 * KiB, 64 * KiB, 128 * KiB, 256 * KiB}) - 24 + below(49);
    }
  }

 private:
  std::mt19937_64 engine_;
};

/// Writes a script, and keeps account of the groups.
class Author {
 public:
  Author(Random& random, int size, std::size_t steps) : random_(random), sizes_{size} {
    while (script_.size() < steps) add();
  }
  Script script() { return std::move(script_); }

 private:
  void add() {
    const std::size_t what = random_.below(100);
    const int group = random_.one_in(2) ? 0 : random_.rank_below(static_cast<int>(sizes_.size()));
    const int size = sizes_[static_cast<std::size_t>(group)];
    if (size == 0) return;  // it is closed
    if (what < 56) {
      script_.emplace_back(collective(group, size));
    } else if (what < 76) {
      script_.emplace_back(MessageStep{group, random_.rank_below(size), random_.one_in(2), ++messages_,
                                       random_.bytes() / sizeof(std::uint32_t)});
    } else if (what < 90) {
      script_.emplace_back(AllocateStep{group, random_.pick({48 * KiB, 300 * KiB, 1100 * KiB, 2200 * KiB}) + 64});
    } else if (what < 96) {
      script_.emplace_back(new_group(group, size));
    } else if (group != 0) {
      sizes_[static_cast<std::size_t>(group)] = 0;
      script_.emplace_back(CloseGroupStep{group});
    }
  }

  CollectiveStep collective(int group, int size) {
    CollectiveStep step;
    step.group = group;
    step.collective = static_cast<Collective>(1 + random_.below(9));
    step.kind = static_cast<Kind>(random_.below(5));
    step.root = random_.rank_below(size);
    choose_counts(step, static_cast<std::size_t>(size));
    step.lot = random_.one_in(2) ? random_() : 0;
    step.options.chunk_bytes = random_.pick<std::size_t>({0, 0, 0, 4 * KiB, 20'000, 64 * KiB});
    step.options.deterministic = random_.one_in(4);
    step.shared = random_.one_in(2);
    // Short ones more often than anything that is used again and again has places.
    const bool is_short = std::ranges::all_of(step.counts, [](std::size_t count) { return count < 200; });
    if (random_.one_in(5)) step.repeats = static_cast<int>(1 + random_.below(is_short ? 160 : 8));
    step.salt = random_();
    return step;
  }

  void choose_counts(CollectiveStep& step, std::size_t size) {
    constexpr std::size_t kElementBytes[] = {1, 4, 8, 2, 3};
    const std::size_t elements = random_.bytes() / kElementBytes[static_cast<std::size_t>(step.kind)];
    switch (step.collective) {
      case Collective::barrier: return;
      case Collective::all_reduce:
      case Collective::reduce:
      case Collective::broadcast: step.counts = {elements}; return;
      default: break;
    }
    const std::size_t share = random_.one_in(3) && size < 8 ? elements : elements / size;
    step.by_counts = random_.one_in(3);
    step.counts.resize(step.collective == Collective::all_to_all ? size * size : size);
    for (std::size_t& count : step.counts) count = step.by_counts ? random_.below(2 * share + 2) : share;
  }

  MakeGroupStep new_group(int parent, int size) {
    MakeGroupStep step{parent, random_.one_in(2), {}};
    if (!random_.one_in(3)) {
      std::vector<int> ranks(static_cast<std::size_t>(size));
      std::iota(ranks.begin(), ranks.end(), 0);
      for (std::size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[random_.below(i)]);
      ranks.resize(1 + random_.below(ranks.size()));
      step.ranks = ranks;
    }
    sizes_.push_back(step.ranks.empty() ? size : static_cast<int>(step.ranks.size()));
    return step;
  }

  Random& random_;
  Script script_;
  std::vector<int> sizes_;  ///< of each group; 0: closed
  std::uint32_t messages_ = 0;
};

}  // namespace

Program::Program(std::uint64_t number) : seed(number) {
  Random random(seed);
  // What matters most comes in turn.
  constexpr int kSizes[] = {2, 3, 4, 7, 4, 2, 5, 3, 18};
  constexpr Transport kTransports[] = {Transport::automatic, Transport::unix_socket, Transport::automatic,
                                       Transport::tcp};
  size = kSizes[seed % std::size(kSizes)];
  config.transport = kTransports[seed % std::size(kTransports)];
  const bool two_hosts = seed % 4 == 2 && random.one_in(2);
  for (int rank = 0; rank < size; ++rank) {
    const int of_two = random.one_in(6) ? -1 : random.one_in(3) ? random.rank_below(2) : rank * 2 / size;
    hosts.push_back(two_hosts ? of_two : config.transport == Transport::automatic ? 0 : -1);
  }
  config.eager_limit = random.pick<std::size_t>({64 * KiB, 64 * KiB, KiB, 0});
  config.unexpected_bytes = random.pick<std::size_t>({64 << 20, 64 << 20, 256 * KiB, 0});
  config.chunk_bytes = random.pick<std::size_t>({0, 0, 0, 10'000});
  config.timeout = std::chrono::seconds(SANITIZED ? 60 : 20);
  if (random.one_in(3)) config.spin = std::chrono::microseconds(random.pick({0, 20}));
  config.deterministic = random.one_in(8);
  crowded = random.one_in(3) == (size == 2);
  threads.resize(random.one_in(4) ? 2 : 1);
  const std::size_t steps = (size > 8 ? 16 : 40) / threads.size();
  for (Script& script : threads) script = Author(random, size, steps).script();
  leaves_at_once = random.one_in(2);
  if (seed % 5 == 0) {
    end = random.pick({End::death, End::mistake});
    culprit = random.rank_below(size);
    fatal_step = random.below(steps / 2);
    leaves_at_once = false;
  }
}

}  // namespace rondo::testing
