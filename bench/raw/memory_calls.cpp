#include "bench/raw/memory_calls.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bench/peers/peer.hpp"
#include "bench/raw/moves.hpp"

namespace rondo::bench {
namespace {

/// From so many bytes on one copy by the system is the best that is known.
constexpr std::size_t kLong = 32U << 10;

/// What lies in a rank's memory, as it is shown: itself, or where it is.
class Shown {
 public:
  explicit Shown(std::span<const std::byte> data) : data_(data), at_(data.data()) {}

  std::span<const std::byte> bytes() const { return fits(data_.size()) ? data_ : std::as_bytes(std::span(&at_, 1)); }
  /// Copies a part of what a rank shows, of which there are `all` bytes.
  static void copy(const MemoryRanks& ranks, int rank, const std::byte* shown, std::size_t all, std::size_t at,
                   std::span<std::byte> into) {
    if (fits(all)) {
      std::memcpy(into.data(), shown + at, into.size());
      return;
    }
    const std::byte* there = nullptr;
    std::memcpy(&there, shown, sizeof there);
    ranks.read(rank, there + at, into);
  }
  static bool fits(std::size_t bytes) { return bytes <= MemoryRanks::kShown; }

 private:
  std::span<const std::byte> data_;
  const std::byte* at_;
};

/// `Wire` between two ranks of which rank 0 begins, and each answers the other: so what was sent has been read.
struct MemoryWire {
  MemoryRanks* ranks;

  void send(std::span<const float> data, int) { ranks->enter(Shown(std::as_bytes(data)).bytes()); }
  void recv(std::span<float> data, int from) {
    const std::byte* const shown = from == 0 ? ranks->await_next(from) : ranks->await(from);
    Shown::copy(*ranks, from, shown, data.size_bytes(), 0, std::as_writable_bytes(data));
  }
  void send_window(std::span<const float>, int, int) { throw std::logic_error("one message at a time"); }
  void recv_window(std::span<float>, int, int) { throw std::logic_error("one message at a time"); }
};

void move_blocks(MemoryRanks& ranks, const Moves& moves, std::span<const std::byte> input, std::byte* output) {
  ranks.enter(Shown(input).bytes());
  const std::size_t all = moves.all(ranks.size());
  for (int turn = 1; turn <= ranks.size(); ++turn) {
    const int source = (ranks.rank() + turn) % ranks.size();
    if (!moves.reads(ranks.rank(), source)) continue;
    Shown::copy(ranks, source, ranks.await(source), all, moves.from(moves.rank),
                {output + moves.begin_of(source), moves.block});
  }
  if (Shown::fits(all)) return;
  ranks.enter();
  for (int reader = 0; reader < ranks.size(); ++reader) {
    if (moves.reads(reader, ranks.rank())) ranks.await(reader);
  }
}

void sum_shown(MemoryRanks& ranks, std::span<const float> input, std::span<float> output) {
  ranks.enter(std::as_bytes(input));
  std::fill(output.begin(), output.end(), 0.0F);
  for (int source = 0; source < ranks.size(); ++source) {
    const std::byte* const shown = ranks.await(source);
    for (std::size_t i = 0; i < output.size(); ++i) {
      float theirs = 0;
      std::memcpy(&theirs, shown + i * sizeof theirs, sizeof theirs);
      output[i] += theirs;
    }
  }
}

PeerExercise::Call make_call(MemoryRanks& ranks, Operation operation, const Shape& shape, Buffers<float>& buffers) {
  const std::span<const float> in = buffers.input();
  const std::span<float> out = buffers.output();
  if (operation == Operation::barrier) return [&ranks] { ranks.barrier(); };
  if (operation == Operation::all_reduce) return [&ranks, in, out] { sum_shown(ranks, in, out); };
  const Moves moves{operation, shape.count * sizeof(float), ranks.rank()};
  return [&ranks, moves, in, out] { move_blocks(ranks, moves, std::as_bytes(in), std::as_writable_bytes(out).data()); };
}

}  // namespace

bool has_bare_form(const Loop& loop) {
  if (loop.bytes > MemoryRanks::kShown && loop.bytes < kLong) return false;
  switch (loop.operation) {
    case Operation::bandwidth:
    case Operation::reduce:
    case Operation::reduce_scatter: return false;
    case Operation::all_reduce: return Shown::fits(loop.bytes);
    default: return true;
  }
}

std::unique_ptr<Exercise> bare_exercise(MemoryRanks& ranks, const Settings& settings, const Shape& shape) {
  return peer_exercise(MemoryWire{&ranks}, ranks, settings, shape,
                       [&](Buffers<float>& buffers) { return make_call(ranks, settings.operation, shape, buffers); });
}

}  // namespace rondo::bench
