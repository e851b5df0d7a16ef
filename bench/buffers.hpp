#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "bench/measure.hpp"
#include "bench/pattern.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// One rank's input and output of a collective, whatever library runs it, and what the output has to be. In place, the
/// one lies in the other.
///
/// A rank's input holds the rank's values from index 0 on, whatever its length, so that each block of a result says
/// which rank it came from and where it lay there.
template <typename T>
class Buffers {
 public:
  using Contents = Exercise::Contents;

  /// `first` and `second`: memory to lie in, enough for `shape.bytes` each, which outlives the buffers; empty: memory
  /// of their own.
  Buffers(const Settings& settings, int rank, int ranks, const Shape& shape, std::span<T> first = {},
          std::span<T> second = {})
      : operation_(settings.operation),
        reduce_(facts(settings.operation).reduces ? settings.reduce : ReduceKind::none),
        rank_(rank),
        size_(ranks),
        root_(settings.root),
        in_place_(settings.in_place),
        block_(shape.count),
        first_{first, {}},
        second_{second, {}} {
    if (reduce_ == ReduceKind::none)
      lay_out_moved(shape.bytes / sizeof(T));
    else
      lay_out_reduced(shape.bytes / sizeof(T));
  }

  std::span<const T> input() const { return input_; }
  std::span<T> output() { return output_; }

  void prepare(Contents contents) {
    if (reduce_ != ReduceKind::none && in_place_ && contents == Contents::zeros) {
      std::fill(output_.begin(), output_.end(), T{});
      return;
    }
    clear(second_.used);
    clear(first_.used);
    fill(input_, values_of_rank<T>(reduce_, rank_, size_));
  }

  /// Wrong elements in the output. Nothing is expected where there is no output.
  std::size_t wrong() const {
    switch (operation_) {
      case Operation::barrier: return 0;
      case Operation::broadcast: return wrong_from(root_, output_, 0);
      case Operation::scatter: return wrong_from(root_, output_, begin_of(rank_));
      case Operation::all_to_all: return wrong_blocks(begin_of(rank_));
      case Operation::all_reduce: return wrong_result(output_, 0);
      case Operation::reduce: return rank_ == root_ ? wrong_result(output_, 0) : 0;
      case Operation::reduce_scatter: return wrong_result(in_place_ ? own_block(output_) : output_, begin_of(rank_));
      default: return wrong_blocks(0);
    }
  }

 private:
  void lay_out_reduced(std::size_t total) {
    output_ = resized(first_, in_place_ ? total : block_);
    input_ = in_place_ ? output_ : resized(second_, total);
  }

  void lay_out_moved(std::size_t total) {
    const bool root = rank_ == root_;
    switch (operation_) {
      case Operation::barrier: return;
      case Operation::broadcast:
        output_ = resized(first_, total);
        if (root) input_ = output_;
        return;
      case Operation::scatter:
        if (root) input_ = resized(first_, total);
        output_ = root && in_place_ ? own_block(input_) : resized(second_, block_);
        return;
      case Operation::gather:
        if (root) output_ = resized(first_, total);
        input_ = root && in_place_ ? own_block(output_) : resized(second_, block_);
        return;
      case Operation::all_gather:
        output_ = resized(first_, total);
        input_ = in_place_ ? own_block(output_) : resized(second_, block_);
        return;
      case Operation::all_to_all:
        output_ = resized(first_, total);
        input_ = in_place_ ? output_ : resized(second_, total);
        return;
      default: throw std::logic_error("not a collective");
    }
  }

  struct Memory {
    std::span<T> used;
    std::vector<T> own;
  };
  static std::span<T> resized(Memory& memory, std::size_t count) {
    if (memory.used.empty()) memory.own.resize(count);
    return memory.used = (memory.used.empty() ? std::span(memory.own) : memory.used).first(count);
  }

  std::size_t begin_of(int rank) const { return static_cast<std::size_t>(rank) * block_; }
  std::span<T> own_block(std::span<T> all) const { return all.subspan(begin_of(rank_), block_); }

  /// Wrong elements of `data`, which lay at rank `source` from index `first` on.
  std::size_t wrong_from(int source, std::span<const T> data, std::size_t first) const {
    return count_wrong(data, values_of_rank<T>(ReduceKind::none, source, size_), 0, first);
  }

  /// Of an output with a block from each rank, each of which lay there from index `first` on.
  std::size_t wrong_blocks(std::size_t first) const {
    std::size_t wrong = 0;
    for (int source = 0; !output_.empty() && source < size_; ++source)
      wrong += wrong_from(source, output_.subspan(begin_of(source), block_), first);
    return wrong;
  }

  /// Of `data`, the combination of what all ranks have from index `first` on.
  std::size_t wrong_result(std::span<const T> data, std::size_t first) const {
    return count_wrong(data, combined_values<T>(reduce_, size_), tolerance<T>(reduce_, size_), first);
  }

  Operation operation_;
  ReduceKind reduce_;
  int rank_;
  int size_;
  int root_;
  bool in_place_;
  std::size_t block_;
  Memory first_;
  Memory second_;
  std::span<T> input_;
  std::span<T> output_;
};

}  // namespace rondo::bench
