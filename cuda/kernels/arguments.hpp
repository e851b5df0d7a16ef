#pragma once

/// What the kernels take, by value. Plain old data of one layout for nvcc and the host's compiler.
namespace rondo::cuda {

inline constexpr unsigned kMaxInputs = 16;

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

}  // namespace rondo::cuda
