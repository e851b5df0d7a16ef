#pragma once

/// What the kernels take, by value. Plain old data of one layout for nvcc and the host's compiler.
namespace rondo::cuda {

inline constexpr unsigned kMaxInputs = 16;
/// What a thread loads and stores at once, where all buffers lie alike as to that.
inline constexpr unsigned kPackBytes = 16;

/// `outputs[o][i] = inputs[0][i] (op) inputs[1][i] (op) ...` for `count` elements. An output may be an input, in the
/// same place: each element is read everywhere before it is written anywhere. Pointers are aligned as their elements
/// are (complex ones as their parts).
struct DirectArguments {
  const void* inputs[kMaxInputs];  ///< in rank order
  void* outputs[kMaxInputs];
  unsigned input_count;
  unsigned output_count;
  unsigned long long count;
  int ranks;  ///< of `avg`: what the sum is divided by
};

/// `into[i] = left[i] (op) right[i]`, with the same rules.
struct CombineArguments {
  const void* left;
  const void* right;
  void* into;
  unsigned long long count;
};

/// `data[i] /= ranks`: the last pass of `avg` where inputs were combined two by two.
struct DivideArguments {
  void* data;
  unsigned long long count;
  int ranks;
};

/// So many bytes from one place to another. Neither is part of where another move of the same kernel writes.
struct Move {
  const void* from;
  void* to;
  unsigned long long bytes;
};

inline constexpr unsigned kMaxMoves = 128;

/// All moves at once: the threads are in so many groups of the same size, each with every so-manieth move.
struct MoveArguments {
  Move moves[kMaxMoves];
  unsigned count;
  unsigned groups;
};

}  // namespace rondo::cuda
