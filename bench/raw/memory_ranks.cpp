#include "bench/raw/memory_ranks.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "bench/raw/forked_ranks.hpp"
#include "runtime/cores.hpp"
#include "transport/process_memory.hpp"

namespace rondo::bench {
namespace {

constexpr unsigned kLooksPerYield = 16;
constexpr unsigned kLooksPerCheck = 1U << 18;

}  // namespace

MemoryRanks::MemoryRanks(int ranks) : size_(ranks), crowded_(ranks > detail::usable_cores()) {
  void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  lines_ = static_cast<Line*>(memory);
  processes_ = reinterpret_cast<Process*>(lines_ + kDepth * static_cast<std::size_t>(size_));
  rank_ = fork_ranks(size_);
  (void)detail::ProcessWord::own();  // where its siblings must be told that they may read it
  processes_[rank_].number = getpid();
  barrier();
}

MemoryRanks::~MemoryRanks() { munmap(lines_, bytes()); }

std::size_t MemoryRanks::bytes() const {
  return static_cast<std::size_t>(size_) * (kDepth * sizeof(Line) + sizeof(Process));
}

MemoryRanks::Line& MemoryRanks::line(int rank, std::uint64_t step) const {
  return lines_[step % kDepth * static_cast<std::uint64_t>(size_) + static_cast<std::uint64_t>(rank)];
}

void MemoryRanks::enter(std::span<const std::byte> shown) {
  ++step_;
  for (int other = 0; step_ >= kDepth && other < size_; ++other) await(other, step_ - kDepth + 1);
  Line& own = line(rank_, step_);
  std::copy(shown.begin(), shown.end(), own.shown.begin());
  own.step.store(step_, std::memory_order_release);
}

const std::byte* MemoryRanks::await(int rank, std::uint64_t step) {
  const Line& awaited = line(rank, step);
  while (awaited.step.load(std::memory_order_acquire) < step) look_again();
  return awaited.shown.data();
}

void MemoryRanks::look_again() {
  ++looks_;
  if (crowded_ && looks_ % kLooksPerYield == 0) sched_yield();
  // The children end with rank 0.
  if (rank_ == 0 && looks_ % kLooksPerCheck == 0 && waitpid(-1, nullptr, WNOHANG) > 0)
    throw std::runtime_error("another rank has ended");
}

void MemoryRanks::read(int rank, const std::byte* from, std::span<std::byte> into) const {
  if (rank == rank_) {
    std::memcpy(into.data(), from, into.size());
  } else if (!detail::read_process(processes_[rank].number, reinterpret_cast<std::uint64_t>(from), into)) {
    throw std::system_error(errno, std::generic_category(), "process_vm_readv");
  }
}

void MemoryRanks::barrier() {
  enter();
  for (int other = 0; other < size_; ++other) await(other);
}

void MemoryRanks::fold(std::span<double> values, Fold how) {
  while (!values.empty()) {
    const auto part = values.first(std::min(values.size(), kShown / sizeof(double)));
    enter(std::as_bytes(part));
    for (int other = 0; other < size_; ++other) {
      const std::byte* const shown = await(other);
      if (other == rank_) continue;
      for (std::size_t i = 0; i < part.size(); ++i) {
        double theirs = 0;
        std::memcpy(&theirs, shown + i * sizeof theirs, sizeof theirs);
        part[i] = how == Fold::max ? std::max(part[i], theirs) : part[i] + theirs;
      }
    }
    values = values.subspan(part.size());
  }
}

}  // namespace rondo::bench
