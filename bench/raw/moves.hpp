#pragma once

#include <cstddef>

#include "bench/operation.hpp"

namespace rondo::bench {

/// Who reads whose input, from where to where.
struct Moves {
  Operation operation;
  std::size_t block;  ///< bytes
  int rank;

  bool reads(int reader, int source) const {
    switch (operation) {
      case Operation::gather: return reader == 0;
      case Operation::scatter: return source == 0;
      case Operation::broadcast: return source == 0 && reader != 0;
      default: return true;
    }
  }
  /// An input has a block for each reader.
  bool by_reader() const { return operation == Operation::scatter || operation == Operation::all_to_all; }
  /// Where in an input that is.
  std::size_t from(int reader) const { return by_reader() ? begin_of(reader) : 0; }
  std::size_t begin_of(int of) const { return block * static_cast<std::size_t>(of); }
  /// Of an input that is read.
  std::size_t all(int ranks) const { return by_reader() ? begin_of(ranks) : block; }
};

}  // namespace rondo::bench
