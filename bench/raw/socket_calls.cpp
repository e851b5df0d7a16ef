#include "bench/raw/socket_calls.hpp"

#include <utility>

#include <rondo/reduction.hpp>
#include <rondo/topology/double_star.hpp>

#include "bench/peers/peer.hpp"
#include "bench/raw/moves.hpp"
#include "runtime/idle.hpp"

namespace rondo::bench {
namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

/// Up to so many bytes few messages, by way of one root or two, take less than the straight way between more than two
/// ranks.
constexpr std::size_t kShort = std::size_t{32} << 10;
/// What is added up at a time stays in a core's cache.
constexpr std::size_t kChunk = std::size_t{512} << 10;

/// Elements that are added up in the order of ranks: of one input a copy.
struct Sum {
  std::vector<const std::byte*> inputs;
  Bytes into;
};

/// What a rank exchanges at the same time, and what it makes of it then.
struct Step {
  std::vector<Sent> sent;
  std::vector<Received> received;
  std::vector<Sum> sums;
  unsigned looks = 0;  ///< see SocketRanks::exchange
};

/// A part of a buffer; of each rank one.
struct Range {
  std::size_t begin;
  std::size_t bytes;
};
using Ranges = std::vector<Range>;

/// One rank's part in a call, worked out once.
class SocketCall {
 public:
  SocketCall(SocketRanks& ranks, Operation operation, const Shape& shape, Buffers<float>& buffers)
      : ranks_(ranks),
        size_(static_cast<std::size_t>(ranks.size())),
        rank_(static_cast<std::size_t>(ranks.rank())),
        block_(shape.count * sizeof(float)),
        in_(std::as_bytes(buffers.input())),
        out_(std::as_writable_bytes(buffers.output())) {
    if (operation != Operation::barrier) lay_out(operation, shape.bytes);
  }

  void run() {
    if (steps_.empty()) return ranks_.barrier();
    static const Reduction kSum = Reduction::of<float>(rondo::sum);
    for (const Step& step : steps_) {
      ranks_.exchange(step.sent, step.received, step.looks);
      for (const Sum& sum : step.sums) kSum.fold(sum.inputs, sum.into.data(), sum.into.size() / sizeof(float));
    }
  }

 private:
  void lay_out(Operation operation, std::size_t bytes) {
    if (facts(operation).synchronises && size_ > 2 && bytes <= kShort)
      return operation == Operation::all_reduce ? through_two_roots() : through_root(operation);
    if (!facts(operation).reduces) return move({operation, block_, ranks_.rank()});
    for (std::size_t begin = 0; begin < block_; begin += kChunk) {
      const Range chunk{begin, std::min(kChunk, block_ - begin)};
      const Ranges parts = parts_of(operation, chunk);
      const bool scattered = operation == Operation::reduce_scatter;
      add_up(parts, out_.subspan(scattered ? begin : parts[rank_].begin, parts[rank_].bytes));
      if (operation == Operation::all_reduce && size_ > 2) share(parts);
    }
  }

  /// What of a chunk each rank adds up: by the operation all of it, none, or a slice. Two ranks need not share what
  /// both can add up.
  Ranges parts_of(Operation operation, const Range& chunk) const {
    if (operation == Operation::all_reduce && size_ == 2) return {2, chunk};
    Ranges parts;
    const std::size_t slice = (chunk.bytes / sizeof(float) + size_ - 1) / size_ * sizeof(float);
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const std::size_t first = std::min(rank * slice, chunk.bytes);
      switch (operation) {
        case Operation::reduce: parts.push_back({chunk.begin, rank == 0 ? chunk.bytes : 0}); break;
        case Operation::reduce_scatter: parts.push_back({rank * block_ + chunk.begin, chunk.bytes}); break;
        default: parts.push_back({chunk.begin + first, std::min(slice, chunk.bytes - first)});
      }
    }
    return parts;
  }

  /// `with(to, from)`: the others, each rank at another time to another.
  template <typename With>
  void each_other(With&& with) const {
    for (std::size_t turn = 1; turn < size_; ++turn) with((rank_ + turn) % size_, (rank_ + size_ - turn) % size_);
  }
  static void send(Step& step, std::size_t to, ConstBytes bytes) { step.sent.push_back({static_cast<int>(to), bytes}); }
  static void receive(Step& step, std::size_t from, Bytes bytes) {
    step.received.push_back({static_cast<int>(from), bytes});
  }

  /// All of it straight from who has it to who wants it.
  void move(const Moves& moves) {
    Step& step = steps_.emplace_back();
    const auto input = [&](std::size_t reader) { return in_.subspan(moves.from(static_cast<int>(reader)), block_); };
    const auto output = [&](std::size_t source) {
      return out_.subspan(moves.begin_of(static_cast<int>(source)), block_);
    };
    const auto reads = [&](std::size_t reader, std::size_t source) {
      return moves.reads(static_cast<int>(reader), static_cast<int>(source));
    };
    each_other([&](std::size_t to, std::size_t from) {
      if (reads(to, rank_)) send(step, to, input(to));
      if (reads(rank_, from)) receive(step, from, output(from));
    });
    if (reads(rank_, rank_)) step.sums.push_back({{input(rank_).data()}, output(rank_)});
  }

  /// Every rank adds up its part of all inputs.
  void add_up(const Ranges& parts, Bytes into) {
    Step& step = steps_.emplace_back();
    const Range own = parts[rank_];
    scratch_.resize(std::max(scratch_.size(), kChunk * size_));
    each_other([&](std::size_t to, std::size_t from) {
      send(step, to, in_.subspan(parts[to].begin, parts[to].bytes));
      receive(step, from, scratch_of(from, own.bytes));
    });
    step.sums.push_back({inputs(in_.data() + own.begin, own.bytes), into});
  }

  /// Every rank sends its part of the output to all others.
  void share(const Ranges& parts) {
    Step& step = steps_.emplace_back();
    each_other([&](std::size_t to, std::size_t from) {
      send(step, to, out_.subspan(parts[rank_].begin, parts[rank_].bytes));
      receive(step, from, out_.subspan(parts[from].begin, parts[from].bytes));
    });
  }

  /// All inputs to the root, and from there every rank its result.
  void through_root(Operation operation) {
    Step& first = steps_.emplace_back();
    if (rank_ != 0) {
      send(first, 0, in_);
      return receive(first, 0, out_);
    }
    // All get the same, or each a block of its own.
    const bool same = operation == Operation::all_reduce || operation == Operation::all_gather;
    scratch_.resize(in_.size() * size_);
    results_.resize(same ? 0 : out_.size() * size_);
    Step last;
    for (std::size_t other = 1; other < size_; ++other) {
      receive(first, other, scratch_of(other, in_.size()));
      send(last, other, same ? out_ : result_of(other));
    }
    for (std::size_t reader = 0; reader < (same ? 1 : size_); ++reader) {
      auto blocks = inputs(in_.data(), in_.size());
      for (auto& block : blocks) block += reader * block_;
      const Bytes result = reader == 0 ? out_ : result_of(reader);
      if (facts(operation).reduces) {
        first.sums.push_back({blocks, result});
      } else {
        for (std::size_t source = 0; source < size_; ++source)
          first.sums.push_back({{blocks[source]}, result.subspan(source * block_, block_)});
      }
    }
    steps_.push_back(std::move(last));
  }

  /// All_reduce by way of two roots, each of one half of the ranks.
  void through_two_roots() {
    const DoubleStar star(ranks_.rank(), ranks_.size());
    const auto centre = static_cast<std::size_t>(star.centre());
    const auto other = static_cast<std::size_t>(star.other_centre());
    Step in, across, back;
    if (star.is_centre()) {
      scratch_.resize(in_.size() * size_);
      results_.resize(in_.size());
      std::vector<const std::byte*> own{in_.data()};
      for (std::size_t leaf = centre + 1; leaf <= centre + static_cast<std::size_t>(star.leaves()); ++leaf) {
        receive(in, leaf, scratch_of(leaf, in_.size()));
        own.push_back(in.received.back().bytes.data());
        send(back, leaf, out_);
      }
      in.sums.push_back({own, results_});
      send(across, other, results_);
      receive(across, other, scratch_of(other, in_.size()));
      std::vector<const std::byte*> both{results_.data(), across.received.back().bytes.data()};
      if (other < centre) std::swap(both[0], both[1]);
      across.sums.push_back({both, out_});
      across.looks = detail::IdlePolicy::kLooksElsewhere;
    } else {
      send(in, centre, in_);
      receive(in, centre, out_);
    }
    steps_ = {std::move(in), std::move(across), std::move(back)};
  }

  Bytes result_of(std::size_t reader) { return Bytes(results_).subspan(reader * out_.size(), out_.size()); }
  Bytes scratch_of(std::size_t source, std::size_t bytes) { return Bytes(scratch_).subspan(source * bytes, bytes); }
  /// Where `bytes` of each rank lie: this rank's own, and what has been received.
  std::vector<const std::byte*> inputs(const std::byte* own, std::size_t bytes) {
    std::vector<const std::byte*> all;
    for (std::size_t source = 0; source < size_; ++source)
      all.push_back(source == rank_ ? own : scratch_of(source, bytes).data());
    return all;
  }

  SocketRanks& ranks_;
  std::size_t size_;
  std::size_t rank_;
  std::size_t block_;  ///< bytes
  ConstBytes in_;
  Bytes out_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> results_;
  std::vector<Step> steps_;
};

}  // namespace

std::unique_ptr<Exercise> bare_exercise(SocketRanks& ranks, const Settings& settings, const Shape& shape) {
  return peer_exercise(RawWire(ranks), ranks, settings, shape, [&](Buffers<float>& buffers) {
    const auto call = std::make_shared<SocketCall>(ranks, settings.operation, shape, buffers);
    return [call] { call->run(); };
  });
}

}  // namespace rondo::bench
