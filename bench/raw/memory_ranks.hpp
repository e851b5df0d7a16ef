#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/measure.hpp"

namespace rondo::bench {

/// Processes that share some lines of memory and may read each other's, and nothing else: no frame, no matching, no
/// check. What a machine allows the ranks of one host, as the measure for a library.
///
/// All go through the same steps. In each a rank shows some bytes in a line of its own, and looks at others'. Whoever
/// waits looks again; with more ranks than cores it gives its own up in between.
class MemoryRanks final : public Fabric {
 public:
  static constexpr std::size_t kShown = 56;

  /// Forks: the caller goes on as rank 0, its children return from here as the others. Throws std::system_error.
  explicit MemoryRanks(int ranks);
  ~MemoryRanks() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override;
  void fold(std::span<double> values, Fold how) override;

  /// Goes on to the next step, and shows up to kShown bytes there.
  void enter(std::span<const std::byte> shown = {});
  /// What that rank shows in this step, when it has come to it. Throws std::runtime_error when a rank has ended.
  const std::byte* await(int rank) { return await(rank, step_); }
  /// The same in the step to come.
  const std::byte* await_next(int rank) { return await(rank, step_ + 1); }
  /// Copies from the memory of a rank. Throws std::system_error.
  void read(int rank, const std::byte* from, std::span<std::byte> into) const;

 private:
  // A line is written again when all have gone on from what it showed.
  static constexpr std::uint64_t kDepth = 4;
  struct alignas(128) Line {
    std::atomic<std::uint64_t> step;
    std::array<std::byte, kShown> shown;
  };
  struct alignas(128) Process {
    pid_t number;
  };

  std::size_t bytes() const;
  Line& line(int rank, std::uint64_t step) const;
  const std::byte* await(int rank, std::uint64_t step);
  void look_again();

  const int size_;
  const bool crowded_;
  int rank_ = 0;
  std::uint64_t step_ = 0;
  unsigned looks_ = 0;
  Line* lines_ = nullptr;
  Process* processes_ = nullptr;
};

}  // namespace rondo::bench
