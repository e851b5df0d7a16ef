#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include <rondo/rondo.hpp>

/// Random programs: what all ranks of a job do, out of one number.
namespace rondo::testing {

/// What elements are, and how they are combined.
enum class Kind : std::uint8_t { xor_bytes, avg_ints, sum_words, sum_halves, compose_maps };

/// A collective, `repeats` times in the same buffers. Each rank chooses for itself whether it waits, and where its
/// buffers lie.
struct CollectiveStep {
  int group = 0;
  Collective collective = Collective::barrier;
  Kind kind = Kind::xor_bytes;
  int root = 0;
  bool by_counts = false;
  /// Elements: one number for vectors of the same length, one for each rank, or for all_to_all what each rank sends to
  /// each, row after row.
  std::vector<std::size_t> counts;
  std::uint64_t lot = 0;  ///< which algorithm of those that there are
  Options options;
  bool shared = false;  ///< in buffers that are allocated, where there is room
  int repeats = 1;
  std::uint64_t salt = 0;  ///< of the elements
};

/// A message of so many words from each member to the one that many ranks further on.
struct MessageStep {
  int group = 0;
  int shift = 0;
  bool any_source = false;  ///< so it is received, by a tag of its own
  std::uint32_t id = 0;     ///< other than 0
  std::size_t words = 0;
};

struct AllocateStep {
  int group = 0;
  std::size_t bytes = 0;
};

struct MakeGroupStep {
  int parent = 0;
  bool by_split = false;
  std::vector<int> ranks;  ///< none: a dup
};

struct CloseGroupStep {
  int group = 0;
};

/// What one thread of each rank does. Group 0 has all ranks; `MakeGroupStep`s make groups 1, 2, ...
using Step = std::variant<CollectiveStep, MessageStep, AllocateStep, MakeGroupStep, CloseGroupStep>;
using Script = std::vector<Step>;

struct Program {
  explicit Program(std::uint64_t seed);

  std::uint64_t seed;
  int size = 0;
  Config config;
  std::vector<int> hosts;       ///< that are pretended, by rank; -1: shares memory with nobody
  bool crowded = false;         ///< ranks take it that they share cores
  std::vector<Script> threads;  ///< of each rank, on a communicator of its own
  bool leaves_at_once = false;  ///< without a barrier at the end

  /// How it ends: in order; a rank dies before a step; a rank calls another collective than all others.
  enum class End : std::uint8_t { in_order, death, mistake } end = End::in_order;
  int culprit = -1;
  std::size_t fatal_step = 0;  ///< of the first thread
  /// Whether it is right that another rank throws this.
  bool ends_by(Errc code) const {
    return (end != End::in_order && code == Errc::peer_failed) ||
           (end == End::mistake && code == Errc::collective_mismatch);
  }
};

/// A rank's part of a program, all its threads. Throws what is wrong, with the step where it was noticed. `die`: how.
void run_rank(const Program& program, Communicator& world, const std::function<void()>& die);

}  // namespace rondo::testing
