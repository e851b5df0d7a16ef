#pragma once

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "bench/probe/board.hpp"
#include "bench/probe/figure.hpp"
#include "cuda/context.hpp"

namespace rondo::bench {

/// One of the processes that answer an item, and what each of them has. Its context is current as long as it lives.
class Part {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws CudaError.
  Part(const cuda::Driver& driver, int rank_here, int ranks, bool tiny)
      : rank(rank_here),
        size(ranks),
        quick(tiny),
        context(driver, 0),
        stream(context),
        current_(context),
        board_(Board::kDescriptor) {
    place().process = ::getpid();
  }

  const int rank;
  const int size;
  const bool quick;
  const cuda::PrimaryContext context;
  const cuda::Stream stream;

  const cuda::Driver& driver() const { return context.driver(); }
  const Board& board() const { return board_; }
  Board::Place& place() const { return board_.place(rank); }
  Board::Place& place(int of_rank) const { return board_.place(of_rank); }
  void barrier() const { board_.barrier(rank, size); }

  template <typename Arguments>
  void launch(cuda::FunctionHandle kernel, Arguments arguments, unsigned blocks, unsigned threads) const {
    std::array<void*, 1> parameters{&arguments};
    driver().must(driver().cuLaunchKernel, kernel, blocks, 1U, 1U, threads, 1U, 1U, 0U, stream.handle(),
                  parameters.data(), nullptr);
  }

  /// Gives an answer, at once: a process that hangs later has given it.
  void report(const Figure& figure) const;

  /// What a whole run takes, and what one takes that is only to show that all works.
  template <typename T>
  T pick(T whole, T tiny) const {
    return quick ? tiny : whole;
  }
  /// Sizes in bytes, each four times the one before.
  std::vector<std::size_t> sizes(std::size_t first, std::size_t last) const;

 private:
  const cuda::Current current_;
  Board board_;
};

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = kKiB * kKiB;

inline double seconds_since(Part::Clock::time_point begin) {
  return std::chrono::duration<double>(Part::Clock::now() - begin).count();
}

/// Seconds that `work` takes.
template <typename Work>
double timed(const Work& work) {
  const auto begin = Part::Clock::now();
  work();
  return seconds_since(begin);
}

}  // namespace rondo::bench
